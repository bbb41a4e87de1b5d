"""A run as a file of the Trace Event Format, which ui.perfetto.dev and chrome://tracing open.

A process is a class of ranks, with the threads of :mod:`engine.account.spans`.  Spans are complete
events (``X``), dependencies between them arrows (``s`` and ``f``), and values over time counters
(``C``): the bandwidth in use in each dimension, and the state of watched links.  A run message by
message has a process for each rank, and one more with a thread for each link.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from dimsweep.engine.account.spans import ON_LINK, OPERATOR, Spans, density, list_threads, spans_of
from dimsweep.engine.errors import DimsweepError
from dimsweep.engine.kernels.phase.batch import Run
from dimsweep.engine.kinds import CollectiveKind
from dimsweep.engine.lower.program import NO_FLOW, NO_NODE, POINT_TO_POINT, Longs, NodeKind, Program
from dimsweep.engine.topology.coordinates import coordinates_of, ranks_at
from dimsweep.engine.units import format_time

if TYPE_CHECKING:  # SimPy is imported only to simulate messages
    from dimsweep.engine.kernels.messages import MessageRun
    from dimsweep.engine.kernels.packet import History

Event = dict[str, Any]
_STEPS = 1000  # of a run, over each of which a rate is averaged
_PER_MICROSECOND = 1e6  # picoseconds; the format counts microseconds
_NANOSECOND = 1000  # picoseconds; the resolution of viewers
_BYTES_A_SPAN = 350  # with its arrows, to begin with
_MOST_RANKS = 8  # of a communicator that are named one by one


def build_trace(run: "Run | MessageRun", limit: int | None = None) -> dict[str, Any]:
    """Return the run as a JSON object of the Trace Event Format.

    Parameters
    ----------
    run
        A recorded run.
    limit
        The largest size of the JSON text in bytes, if written without spaces.

    Raises
    ------
    DimsweepError
        If nothing was recorded, or if not even the names fit.

    Notes
    -----
    If not all spans fit, the trace has the longest ones, and as many of the earliest of all others;
    ``otherData`` describes them in a sentence.
    """
    spans = spans_of(run)
    whole = len(spans.start)
    always = [*_names(run, spans), *_counters(run, spans)]
    room = whole if limit is None else min(whole, limit // _BYTES_A_SPAN)
    while True:
        kept, extent = _select_spans(spans, room)
        made = {
            "displayTimeUnit": "ns",
            "otherData": {"iteration": format_time(float(run.measures.time[0])), "holds": extent},
            "traceEvents": [*always, *_spans(run, kept), *_arrows(run, kept)],
        }
        size = 0 if limit is None else len(encode_trace(made))
        if limit is None or size <= limit:
            return made
        if not room:
            raise DimsweepError(
                f"{limit:,} bytes are too few for the timeline's names and counters",
                where="timeline_limit",
                hint=f"allow {size:,} B or more",
                code="out-of-range",
            )
        room = room * limit // size * 19 // 20


def encode_trace(made: dict[str, Any]) -> bytes:
    """Return the result of :func:`build_trace` as the bytes of a JSON file."""
    return json.dumps(made, separators=(",", ":")).encode()


def _select_spans(spans: Spans, room: int) -> tuple[Spans, str]:
    """Return the ``room`` spans to keep, and a description: the longest half, then the earliest."""
    n = len(spans.start)
    if room >= n:
        return spans, f"all spans ({n:,})"
    lasts = spans.end - spans.start
    by_length = np.lexsort((spans.start, -lasts))
    rest = by_length[room // 2 :]
    rest = rest[np.argsort(spans.start[rest], kind="stable")]
    first, left = rest[: room - room // 2], rest[room - room // 2 :]
    kept = np.sort(np.concatenate([by_length[: room // 2], first]))
    before, longer = format_time(int(spans.start[left].min())), format_time(int(lasts[left].max()))
    extent = (
        f"{room:,} of {n:,} spans: all that start before {before}, and of the later ones those "
        f"that last longer than {longer}"
    )
    return Spans(*(column[kept] for column in spans)), extent


# --- names --------------------------------------------------------------------------------------


def _names(run: "Run | MessageRun", spans: Spans) -> Iterator[Event]:
    """Yield events that name processes and threads, and the additional threads in use."""
    program, links = run.program, [] if isinstance(run, Run) else run.links
    names, threads = program.names, list_threads(program)
    used = set(zip(spans.process.tolist(), spans.thread.tolist(), strict=True))
    for cls, (count, first) in enumerate(zip(names.class_count, names.class_first, strict=True)):
        yield _process(cls, f"{count} ranks like rank {first}" if count > 1 else f"rank {first}")
        for thread, name in enumerate(threads):
            yield _thread(cls, thread, name)
    for process, thread in sorted(used):
        if thread >= len(threads) and process < len(names.class_count):
            yield _thread(process, thread, f"{threads[thread % len(threads)]}, concurrent")
    if not isinstance(run, Run):
        yield _process(program.n_npus, "links")
        for thread, account in enumerate(links):
            yield _thread(program.n_npus, thread, account.link.name)


def _process(process: int, name: str) -> Event:
    return {"ph": "M", "name": "process_name", "pid": process, "args": {"name": name}}


def _thread(process: int, thread: int, name: str) -> Event:
    args = {"name": name}
    return {"ph": "M", "name": "thread_name", "pid": process, "tid": thread, "args": args}


# --- spans --------------------------------------------------------------------------------------


def _spans(run: "Run | MessageRun", spans: Spans) -> Iterator[Event]:
    """Yield the spans as complete events, each with its properties."""
    names, describe = run.program.names.node, _describer(run)
    for process, thread, start, end, node, phase in zip(
        *(column.tolist() for column in spans), strict=True
    ):
        category, args = describe(node, phase)
        yield {
            "ph": "X",
            "name": names[node],
            "cat": category,
            "pid": process,
            "tid": thread,
            "ts": start / _PER_MICROSECOND,
            "dur": (end - start) / _PER_MICROSECOND,
            **({"args": args} if args else {}),
        }


def _describer(run: "Run | MessageRun") -> Callable[[int, int], tuple[str, Event]]:
    """Return a function of a node and a phase that returns a span's name and event properties."""
    s, describe_operator = run.program.structure, _operator_describer(run.program)
    if isinstance(run, Run):
        state, phases = run.state, run.times.phases
        chunks, records = state.chunks, state.chunks["record"].copy()  # packed: looked at often

    def describe(node: int, phase: int) -> tuple[str, Event]:
        category, args = describe_operator(node)
        if phase == OPERATOR:
            return category, args
        if phase < 0 or not isinstance(run, Run):
            return ("link" if phase == ON_LINK else "phase"), args
        chunk = int(np.searchsorted(records, phase, side="right")) - 1
        flow, times = s.flows[chunks["flow"][chunk]], phases[state.phase_of[phase]]
        steps = times["steps"]
        share = 1.0 if steps < 0 else s.phase_steps[steps]["bytes_sent"]
        number = chunk - int(flow["chunk_start"]) + 1
        n = int(flow["chunk_end"] - flow["chunk_start"])
        own = {"bytes": round(float(times["n_bytes"] * share)), "chunk": f"{number} of {n}"}
        own["dimension"] = run.program.names.dims[times["dim"]]
        return "phase", {**args, **own}

    return describe


def _operator_describer(program: Program) -> Callable[[int], tuple[str, Event]]:
    """Return a function of a node that returns its operator's category, and its bytes and ranks."""
    s, names = program.structure, program.names
    categories = {
        NodeKind.COMPUTE: "compute",
        NodeKind.HOST: "host",
        NodeKind.ACCESS: "memory",
        NodeKind.COLLECTIVE: "collective",
        NodeKind.SEND: "message",
        NodeKind.RECEIVE: "message",
    }
    ranks = cache(lambda group, cls: _communicator(program, group, names.class_first[cls]))

    @cache
    def by_form(f: int, group: str, cls: int) -> Event:
        form = s.forms[f]
        dims = [names.dims[use["dim"]] for use in s.uses[form["use_start"] : form["use_end"]]]
        found: Event = {"bytes": round(float(form["n_bytes"] * form["chunks"]))}
        if form["kind"] != POINT_TO_POINT:
            found |= {"collective": str(CollectiveKind(int(form["kind"]))), "group": group}
            found |= {"ranks": ranks(group, cls)} if group in program.workload.groups else {}
        return found | {"dimension": ", ".join(dims)}

    @cache
    def describe_node(node: int) -> tuple[str, Event]:
        own = s.nodes[node]
        category = categories[NodeKind(int(own["kind"]))]
        if own["flow"] == NO_FLOW:
            return category, {}
        flow, group = s.flows[own["flow"]], names.flow_group
        named = group[own["flow"]] if len(group) else ""
        args = by_form(int(flow["form"]), named, int(own["cls"]))
        if category == "message" and flow["receiver"] != NO_NODE:
            ends = [s.members[flow["member_start"]]["node"], flow["receiver"]]
            sender, receiver = (names.class_first[s.nodes[end]["cls"]] for end in ends)
            args = {**args, "from": f"rank {sender}", "to": f"rank {receiver}"}
            if max(names.class_count) > 1:
                args |= {"from": f"ranks like {sender}", "to": f"ranks like {receiver}"}
        return category, args

    return describe_node


def _communicator(program: Program, group: str, rank: int) -> str:
    """Return the members of ``rank``'s group in words: ``0-7``, or ``0, 8, 16, ... (32 ranks)``."""
    sizes, given = program.cluster.topology.sizes, program.workload.groups[group]
    digits = []
    for at, p, stride in zip(coordinates_of(rank, sizes), given.sizes, given.strides, strict=True):
        first = at - at // stride % p * stride
        digits.append(np.arange(first, first + p * stride, stride))
    mesh = np.stack(np.meshgrid(*digits, indexing="ij"), axis=-1).reshape(-1, len(sizes))
    members = np.sort(ranks_at(mesh, sizes)).tolist()
    if len(members) > 1 and members[-1] - members[0] == len(members) - 1:
        return f"{members[0]}-{members[-1]}"
    text = ", ".join(map(str, members[:_MOST_RANKS]))
    return text if len(members) <= _MOST_RANKS else f"{text}, ... ({len(members)} ranks)"


# --- arrows -------------------------------------------------------------------------------------


def _arrows(run: "Run | MessageRun", spans: Spans) -> Iterator[Event]:
    """Yield arrows from each span to the spans that it lets start.

    They lead from an operator to its dependents on other threads, from a message to its receiver,
    from a collective to its chunks' first phases, and from a phase to the next.
    """
    pairs = [_dependents(run.program, spans)]
    if isinstance(run, Run):
        pairs.append(_next_phases(run, spans))
    number = 0
    for source, target in np.concatenate(pairs).tolist():
        start, end = int(spans.start[source]), int(spans.end[source])
        arrives = int(spans.start[target])
        if end - start < _NANOSECOND or spans.end[target] - arrives < _NANOSECOND:
            continue  # too short for a viewer to hang an arrow on
        leaves = end - _NANOSECOND
        if leaves > arrives:  # a receive that was waiting, or the phases of a collective
            leaves, arrives = (start, arrives) if start <= arrives else (leaves, leaves)
        number += 1
        common = {"name": "lets start", "cat": "dependency", "id": number}
        for phase, span, time in (("s", source, leaves), ("f", target, arrives)):
            event = {"ph": phase, **common, "ts": time / _PER_MICROSECOND}
            event |= {"pid": int(spans.process[span]), "tid": int(spans.thread[span])}
            yield event | ({"bp": "e"} if phase == "f" else {})


def _dependents(program: Program, spans: Spans) -> Longs:
    """Return pairs (E, 2) of spans on different threads, whose second operator awaits the first."""
    s = program.structure
    span_of = np.full(len(s.nodes), -1)
    operators = np.flatnonzero(spans.phase == OPERATOR)
    span_of[spans.node[operators]] = operators
    follow = s.nodes["next_end"] - s.nodes["next_start"]
    sends = np.flatnonzero(s.flows["receiver"] != NO_NODE)
    source = np.repeat(np.arange(len(s.nodes)), follow)
    source = np.append(source, s.members["node"][s.flows["member_start"][sends]])
    target = np.append(s.following.astype(np.int64), s.flows["receiver"][sends])
    pairs = np.stack([span_of[source], span_of[target]], axis=1)
    pairs = pairs[(pairs >= 0).all(axis=1)]
    place = spans.process * (spans.thread.max(initial=0) + 1) + spans.thread
    return pairs[place[pairs[:, 0]] != place[pairs[:, 1]]]


def _next_phases(run: Run, spans: Spans) -> Longs:
    """Return pairs (E, 2) of spans in which a phase ends before the other starts.

    A collective or message is paired with each chunk's first phase; consecutive phases of a chunk
    are paired if they are in different dimensions.
    """
    state, phase = run.state, spans.phase
    of_chunk = np.repeat(np.arange(len(state.chunks)), state.chunks["end"] - state.chunks["first"])
    found = np.flatnonzero(phase >= 0)
    found = found[np.lexsort((phase[found], spans.process[found]))]
    span_of = {int(spans.node[i]): int(i) for i in np.flatnonzero(phase == OPERATOR)}
    pairs = []
    for before, i in pairwise([-1, *found.tolist()]):
        first = phase[i] == state.chunks["record"][of_chunk[phase[i]]]
        if first and int(spans.node[i]) in span_of:
            pairs.append((span_of[int(spans.node[i])], i))
        elif not first and before >= 0 and phase[before] == phase[i] - 1:
            same = spans.process[before] == spans.process[i]
            if same and spans.thread[before] != spans.thread[i]:
                pairs.append((before, i))
    return np.array(pairs, dtype=np.int64).reshape(-1, 2)


# --- counters -----------------------------------------------------------------------------------


def _counters(run: "Run | MessageRun", spans: Spans) -> Iterator[Event]:
    """Yield counter events: the bandwidth in use by dimension, or the state of watched links."""
    end = int(run.measures.time[0])
    if isinstance(run, Run):
        if end and (spans.phase >= 0).any():
            yield from _bandwidth(run, spans, end)
        return
    for number, history in run.traffic.histories.items() if run.traffic else ():
        yield from _history(run.links[number].link.name, history, run.program.n_npus, end)


def _bandwidth(run: Run, spans: Spans, end: int) -> Iterator[Event]:
    """Yield the bytes/s in use in each dimension, averaged over all NPUs and each time step."""
    program = run.program
    process, edges = program.structure.shape.n_classes, np.linspace(0, end, _STEPS + 1)
    yield _process(process, "bandwidth in use (GB/s, mean of all NPUs)")
    phases = run.times.phases[run.state.phase_of[np.maximum(spans.phase, 0)]]
    share = np.append(program.structure.phase_steps["bytes_sent"], 1.0)  # the last: a message
    share = share[np.maximum(phases["steps"], -1)]
    lasts, ranks = spans.end - spans.start, np.array(program.names.class_count)
    for d, name in enumerate(program.names.dims):
        own = (spans.phase >= 0) & (phases["dim"] == d) & (lasts > 0)
        rate = (phases["n_bytes"] * share)[own] * ranks[spans.process[own]] / lasts[own]
        used = density(spans.start[own], spans.end[own], edges, rate) / program.n_npus
        values = np.append(used * 1e3, 0.0)  # bytes a ps to GB/s
        yield from _counter(name, edges, np.round(values, 6), process)


def _history(link: str, history: "History", process: int, end: int) -> Iterator[Event]:
    """Yield a watched link's queue, pauses and marks as they change, and its rate by time step."""
    instants = np.arange(_STEPS + 1) * max(end // _STEPS, 1)
    sent = history.sent_by(instants)
    rates = np.diff(sent, append=sent[-1]) / instants[1] * 1e3  # bytes a ps to GB/s
    values = {
        "queue (bytes)": (history.times, history.queue),
        "paused": (history.times, history.paused),
        "packets marked": (history.times, history.marked),
        "rate (GB/s)": (instants, rates),
    }
    for name, (times, column) in values.items():
        yield from _counter(f"{link}: {name}", times, column, process)


def _counter(
    name: str, times: Sequence[float] | np.ndarray, values: np.ndarray, process: int
) -> Iterator[Event]:
    """Yield a counter event called ``name`` at each of ``times`` at which its value changes."""
    changes = np.flatnonzero(np.diff(values, prepend=-1))
    for time, value in zip(
        np.asarray(times)[changes].tolist(), values[changes].tolist(), strict=True
    ):
        yield {
            "ph": "C",
            "name": name,
            "pid": process,
            "ts": time / _PER_MICROSECOND,
            "args": {"value": value},
        }
