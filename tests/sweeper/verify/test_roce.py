"""The study of congestion control: what its points look at, and a small case of it."""

from sweeper.verify.roce import ALONE, CASES, MORE, TRAINING, VARIANTS, Setting, points, run

TIMES = {(case, name): 1.0 for case in CASES for name in VARIANTS} | dict.fromkeys(MORE, 1.0)
AS_FOUND = TIMES | {
    **{(case, "HPCC"): 1.04 for case in CASES},
    ("halving-doubling", "sprayed"): 0.5,
    ("halving-doubling", "DCQCN, sprayed"): 0.5,
    ("all-to-all", "DCQCN"): 2.0,
}


def failed(**changed: float) -> list[str]:
    """The points that fail when times are changed; case and variant stand in one name."""
    times = dict(AS_FOUND)
    for name, time in changed.items():
        case, variant = name.split("__")
        times[case.replace("_", "-"), variant] = time
    return [point.name for point in points(times) if not point.holds]


def test_each_point_looks_at_its_own_times() -> None:
    assert failed() == []
    assert failed(ring__TIMELY=1.06) == ["ring: DCQCN, DCTCP, TIMELY"]
    assert failed(hierarchical__HPCC=0.99) == ["HPCC pays its telemetry and its target"]
    assert failed(halving_doubling__sprayed=1.1)[-1].startswith("collisions of ECMP's hashes")
    assert failed(all_to_all__DCQCN=1.0)[0] == "direct all-to-all tells them apart"


def test_a_hierarchy_of_two_racks_is_never_marked() -> None:
    small = Setting(racks=2, n_bytes=64e3)
    alone, dcqcn, hpcc = (
        run(TRAINING["hierarchical"], ALONE._replace(transport=transport, window=True), small)
        for transport in (
            "static",
            "dcqcn",
            "hpcc",
        )
    )
    assert alone == dcqcn < hpcc
    assert run(TRAINING["NVLink and Clos"], ALONE, small) > 0
