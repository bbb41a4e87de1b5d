"""Synthetic traces: laws are found again, unseen jobs are met, and bad input is told."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from dimsweep.engine import Workload, simulate
from dimsweep.engine.errors import Code
from dimsweep.engine.extensions.synthesis import (
    TraceModel,
    learn,
    membership,
    obfuscate,
    read_model,
    synthesise,
    write_model,
)
from dimsweep.engine.extensions.synthesis.formula import fit, fit_count
from dimsweep.engine.extensions.synthesis.grammar import Loop, follow, induce, unroll
from tests.support.jobs import cluster_of, draw, forward_time, jobs, n_ranks, pipelined
from tests.support.refused import refused

NOISE = 0.03
LEARNT = draw(40, 0)


@pytest.fixture(scope="module")
def model() -> TraceModel:
    return learn(jobs(LEARNT, NOISE))


@pytest.fixture(scope="module")
def small() -> TraceModel:
    """Of fewer jobs, where it need not know them well."""
    return learn(jobs(LEARNT[:16], NOISE))


def time_of(workload: Workload, n: int) -> float:
    return simulate(workload, cluster_of(n)).time


def test_loops_are_found_within_loops() -> None:
    symbols = [*"xababcababcababc", *"z"]
    pattern = induce(symbols)
    assert pattern == ("x", Loop((Loop(("a", "b")), "c")), "z")
    found = follow(pattern, [*"xababababcz"])
    assert found is not None and found[0] == {(1, 0): [4], (1,): [1]}
    assert follow(pattern, [*"xabcab"]) is None
    assert [*unroll(pattern, {(1,): 0, (1, 0): 3})] == [(0,), (2,)]


def test_formulas_are_found_from_values() -> None:
    keys = draw(40, 1)
    formula = fit([forward_time(each) for each in keys], keys)
    beyond = {"hidden": 8192, "sequence": 8192, "tensor": 8}
    assert formula.evaluate(keys[0] | beyond) == pytest.approx(
        forward_time(keys[0] | beyond), rel=1e-6
    )
    counts = fit_count([each["micro_batches"] + each["pipeline"] - 1 for each in keys], keys)
    assert counts is not None and counts.evaluate(keys[0] | {"pipeline": 16}) == (
        keys[0]["micro_batches"] + 15
    )


@pytest.mark.long
def test_unseen_jobs_take_about_as_long(model: TraceModel) -> None:
    known = {tuple(keys.values()) for keys in LEARNT}
    near = [keys for keys in draw(12, 7) if tuple(keys.values()) not in known]
    far = draw(4, 8, layers=(8,), data=(8, 16))
    warnings: list[str] = []
    for held_out, limit in ((near, 0.05), (far, 0.10)):
        errors = []
        for keys in held_out:
            made = synthesise(model, keys)
            warnings += made.warnings
            real = time_of(pipelined(keys, NOISE, seed=99), n_ranks(keys))
            errors.append(abs(time_of(made.workload, made.n_ranks) / real - 1))
        assert np.mean(errors) < limit
    assert any("data=16 is extrapolated: it was learnt from 2 to 4" in text for text in warnings)


@pytest.mark.long
def test_unseen_jobs_have_the_same_operators(model: TraceModel) -> None:
    keys = draw(1, 11, pipeline=(4,))[0]
    made, real = synthesise(model, keys, spread=False).workload, pipelined(keys)
    assert made.groups == real.groups
    for mine, theirs in zip(made.graphs, real.graphs, strict=True):
        assert [each.after for each in mine] == [each.after for each in theirs]
        kinds = (Counter(type(each.work).__name__ for each in graph) for graph in (mine, theirs))
        assert next(kinds) == next(kinds)


@pytest.mark.long
def test_samples_are_seeded_and_scatter_as_they_did(model: TraceModel) -> None:
    keys = draw(1, 12, pipeline=(1,), micro_batches=(8,), layers=(4,))[0]
    one, same, other = (synthesise(model, keys, seed=seed).workload for seed in (1, 1, 2))
    assert one.graphs == same.graphs != other.graphs
    times = [w.work.duration for w in one.graphs[0] if w.name == "F layer"]  # type: ignore[union-attr]
    assert np.std(np.log(times)) == pytest.approx(NOISE, rel=0.5)


def test_a_model_is_the_same_from_its_file(small: TraceModel, tmp_path: Path) -> None:
    write_model(tmp_path / "model.json", small)
    keys = LEARNT[0]
    again = synthesise(read_model(tmp_path / "model.json"), keys, spread=False).workload
    assert again.graphs == synthesise(small, keys, spread=False).workload.graphs
    text = (tmp_path / "model.json").read_text()
    assert '"degrees": [\n  "tensor",\n  "pipeline",\n  "data"\n ]' in text
    spoilt = text.replace('"axis": ', '"axis": 9')
    cases: list[tuple[str, str, Code, str]] = [
        ("[1]", "bad.json", "wrong-type", ""),
        ('{"format": "x"}', "bad.json", "unsupported", "'x'"),
        (text.replace('"jobs"', '"job"'), "jobs", "missing", ""),
        (text.replace("|", "!"), "bad.json", "bad-syntax", ""),
        (spoilt, "bad.json", "bad-syntax", "9"),
    ]
    for content, place, code, data in cases:
        (tmp_path / "bad.json").write_text(content)
        with refused(place, code, data):
            read_model(tmp_path / "bad.json")


def test_obfuscated_traces_say_nothing_by_name_and_take_as_long() -> None:
    errors = []
    for keys in draw(4, 3, pipeline=(3,)):
        real = pipelined(keys, NOISE)
        hidden = obfuscate(real, privacy=0.05, seed=4)
        n = n_ranks(keys)
        errors.append(abs(time_of(hidden, n) / time_of(real, n) - 1))
        names = {each.name for graph in hidden.graphs for each in graph}
        assert names == {"compute", "all_reduce", "send", "receive"}
        assert set(hidden.groups) == {"group 0", "group 1"}
        assert hidden.graphs[0][0].work != real.graphs[0][0].work
    assert max(errors) < 0.03


@pytest.mark.long
def test_who_was_learnt_from_can_hardly_be_told(model: TraceModel) -> None:
    everyone = jobs(draw(65, 0), NOISE)
    known = {tuple(keys.values()) for keys in LEARNT}
    members = [job for job in everyone if tuple(job.keys.values()) in known][:30]
    others = [job for job in everyone if tuple(job.keys.values()) not in known]
    assert 0.3 < membership(model, members, others) < 0.75


@pytest.mark.parametrize(
    ("asked", "place", "code", "data"),
    [
        ({"layer": 4}, "layer", "unknown-key", "'layers'"),
        ({"layers": 1000}, "layers", "out-of-range", "1000"),
        ({"layers": -1}, "layers", "out-of-range", "-1"),
        ({"layers": 8}, "hidden", "missing", "512 to 2048"),
    ],
)
def test_what_was_not_learnt_is_refused(
    asked: dict[str, float], place: str, code: Code, data: str, small: TraceModel
) -> None:
    with refused(place, code, data):
        synthesise(small, asked)


def test_stages_that_do_not_divide_are_refused(small: TraceModel) -> None:
    keys = LEARNT[0] | {"layers": 10, "pipeline": 4}
    with refused("", "out-of-range"):
        synthesise(small, keys)


def test_jobs_that_do_not_belong_together_are_refused() -> None:
    keys = draw(3, 5)
    two = jobs(keys)
    with refused("", "missing"):
        learn([])
    with refused("job1", "duplicate", "job0"):
        learn([two[0], jobs([keys[0], keys[0]])[1]])
    two[1].keys.pop("layers")  # type: ignore[attr-defined]
    with refused("job1", "mismatch", "hidden"):
        learn(two)


def test_a_key_that_never_varied_is_fixed() -> None:
    model = learn(jobs(draw(6, 2, hidden=(512,), tensor=(1,), pipeline=(1,), data=(1,))))
    asked = {"layers": 3, "sequence": 512, "micro_batches": 6}
    assert synthesise(model, asked).n_ranks == 1
    with refused("hidden", "unsupported", "512"):
        synthesise(model, asked | {"hidden": 1024})
