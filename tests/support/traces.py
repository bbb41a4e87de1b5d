"""What the Trace Event Format asks of a file."""

import json
from collections import defaultdict
from typing import Any

KEYS = {  # of each kind of event: those that it must have
    "M": {"name", "pid", "args"},
    "X": {"name", "cat", "pid", "tid", "ts", "dur"},
    "C": {"name", "pid", "ts", "args"},
    "s": {"name", "cat", "id", "pid", "tid", "ts"},
    "f": {"name", "cat", "id", "pid", "tid", "ts", "bp"},
}


def check_format(trace: dict[str, Any]) -> None:
    """A JSON object of events with the keys that their kinds need: all on threads that are named,
    each arrow with one beginning within a span and one end at a span, counters of numbers."""
    assert json.loads(json.dumps(trace, allow_nan=False)) == trace
    assert trace.keys() == {"traceEvents", "displayTimeUnit", "otherData"}
    assert trace["displayTimeUnit"] in ("ms", "ns")
    events = trace["traceEvents"]
    named = {(e["pid"], e.get("tid")) for e in events if e["ph"] == "M"}
    spans = defaultdict(list)
    arrows = defaultdict(list)
    for event in events:
        assert event.keys() >= KEYS[event["ph"]]
        assert event.keys() <= KEYS[event["ph"]] | {"ph", "args", "tid"}, event
        if event["ph"] == "M":
            assert event["name"] in ("process_name", "thread_name")
            assert isinstance(event["args"]["name"], str)
            continue
        assert event["ts"] >= 0
        if event["ph"] == "C":
            assert all(isinstance(value, (int, float)) for value in event["args"].values())
            continue
        assert (event["pid"], event["tid"]) in named
        if event["ph"] == "X":
            assert event["dur"] >= 0
            spans[event["pid"], event["tid"]].append((event["ts"], event["ts"] + event["dur"]))
        else:
            arrows[event["id"]].append(event)
    for ends in arrows.values():
        start, finish = ends
        assert (start["ph"], finish["ph"]) == ("s", "f") and finish["bp"] == "e"
        assert start["ts"] <= finish["ts"], "time does not run backwards"
        for event in ends:
            around = spans[event["pid"], event["tid"]]
            assert any(a - 1e-6 <= event["ts"] < b + 1e-6 for a, b in around)
