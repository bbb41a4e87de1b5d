"""The study of TCP and shallow buffers: what its points look at, and a small case of it."""

from sweeper.verify.tcp import AMPLE, CASES, TIMED, Case, Outcome, Setting, points, run

FINE = Outcome(time=0.010, exposed=0.005, sent=1000, dropped=0, timeouts=0)
LATE = Outcome(time=0.020, exposed=0.015, sent=1000, dropped=90, timeouts=9)
AS_FOUND = {
    case: LATE if case.buffer <= (16_000 if case.topology == "flat" else 1_000) else FINE
    for case in CASES
} | {case: FINE._replace(time=case.rto_min / 1e12 + 0.020) for case in TIMED}


def failed(**changed: Outcome) -> list[str]:
    """The points that fail when outcomes are changed; topology, algorithm and buffer in a name."""
    outcomes = dict(AS_FOUND)
    for name, outcome in changed.items():
        topology, algorithm, buffer = name.split("__")
        outcomes[Case(topology, algorithm, int(buffer))] = outcome
    return [point.name for point in points(outcomes) if not point.holds]


def test_each_point_looks_at_its_own_outcomes() -> None:
    assert failed() == []
    assert failed(hierarchical__bruck__16000=LATE) == ["bruck: who suffers first"]
    assert (
        failed(hierarchical__pairwise__2000=LATE)
        == [
            "pairwise: who suffers first",
            "pairwise: who suffers more",
        ][1:]
    )
    named = failed(flat__direct__2000=LATE._replace(dropped=0))
    assert named == ["what the flat topology drops, direct"]
    named = failed(flat__direct__8000=LATE._replace(time=0.100))
    assert named == ["TCP's least time-out (1, 10 and 200 ms), direct"]


def test_a_small_iteration_drops_more_on_the_flat_topology() -> None:
    small = Setting(n_npus=16, samples=64)
    flat, nodes = (run(Case(t, "direct", 1_000), small) for t in ("flat", "hierarchical"))
    ample = run(Case("flat", "direct", AMPLE), small)
    assert ample.dropped == ample.timeouts == 0 < ample.exposed < ample.time < flat.time
    assert flat.dropped > nodes.dropped
