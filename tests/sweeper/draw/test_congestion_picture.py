"""What the terminal tells, the timeline counts and the picture draws of packets that meet."""

import io
import json
from pathlib import Path

import matplotlib.image
import numpy as np
import pytest

from dimsweep.engine.kernels.packet import History
from dimsweep.sweeper.cli.main import main
from dimsweep.sweeper.config.compose import compose
from dimsweep.sweeper.draw import congestion as pictures

LINK = "leaf d0 line 0 no 1 -> spine d0 line 0 no 1"
SMALL = [
    *("workload=all_reduce", "workload.layers.0.weight_grad.size=400 kB", "collective=whole"),
    *("topology.shape=Switch(16)", "topology.tiers=[]", "topology.latency=100 ns"),
    *("topology.bandwidth=[50 GB/s]", "collective.algorithms=[halving_doubling]"),
    *("network.fabric={kind: clos, levels: 2, leaf: 4, oversubscription: 2}",),
    *("network.routing=ecmp", "network.packets.buffer=200 kB", "network.packets.pmax=1"),
    *("network.packets.kmin=9 kB", "network.packets.kmax=90 kB", "executor=inline"),
]


@pytest.mark.long
@pytest.mark.filterwarnings("error")
def test_simulate_tells_counts_and_draws_what_packets_meet(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.chdir(tmp_path)
    outputs = ["congestion=met.png", "timeline=run.json", f"watch=[{LINK}, NPU 6]"]
    assert main(["simulate", "--full", "fidelity=packet", *SMALL, *outputs]) == 0
    text = capsys.readouterr().out
    times = _row_below("completion times", text)
    assert times[:3] == ["all_reduce", "data", "128"]  # 8 rounds of 16 NPUs
    p50, p99, longest = (float(time) for time in times[3::2])
    assert 0 < p50 < p99 < longest
    *_, packets, marked = _row_below("longest queues", text)
    assert 0 < int(marked) < int(packets.replace(",", ""))
    paused = " ".join(_row_below("paused links", text))
    assert paused.startswith("NPU ") and "leaf d0 line 0 no 1 -> spine" in paused
    events = json.loads((tmp_path / "run.json").read_text())["traceEvents"]
    counted = [event for event in events if event["ph"] == "C"]
    assert {event["name"].split(": ")[0] for event in counted} == {
        LINK,
        "NPU 6 -> leaf d0 line 0 no 1",
    }
    assert {e["args"]["value"] for e in counted if e["name"].endswith(": paused")} == {0, 1}
    image = matplotlib.image.imread(io.BytesIO((tmp_path / "met.png").read_bytes()))
    assert image.shape[1] == 1350 and len(np.unique(image @ [1.0, 10.0, 100.0, 0.0])) > 50


def _row_below(head: str, text: str) -> list[str]:
    lines = [line.strip() for line in text.splitlines()]
    (at,) = (i for i, line in enumerate(lines) if line.startswith(head))
    return lines[at + 1].split()


def test_pauses_are_drawn_from_when_they_begin_to_when_they_end() -> None:
    """The last one goes on when the run ends."""
    paused = np.array([0, 1, 1, 0, 1], np.int32)
    nothing = np.zeros(5, np.int64)
    history = History(np.array([10, 20, 25, 40, 90]), paused, nothing, nothing, paused)
    assert pictures._spans(history, 100).tolist() == [[20, 20], [90, 10]]


@pytest.mark.parametrize(
    ("watch", "names"),
    [
        ("NPU 3", ("NPU 3",)),
        (f"[{LINK}, NPU 3]", (LINK, "NPU 3")),
        (f"['{LINK}','NPU 3']", (LINK, "NPU 3")),
        (f"'{LINK}'", (LINK,)),
    ],
)
def test_the_arrow_in_a_links_name_need_not_be_quoted(watch: str, names: tuple[str, ...]) -> None:
    assert compose([f"watch={watch}"]).config.watch == names
