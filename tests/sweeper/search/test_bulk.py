"""Samplers for many trials: batch sizes that change no row, generations that grow, handing over."""

import json
from collections.abc import Callable

import numpy as np
import pytest

from dimsweep import load
from dimsweep.sweeper.config.study import Search
from dimsweep.sweeper.objective import TIME
from dimsweep.sweeper.run.loop import StudyPlan
from dimsweep.sweeper.search import SAMPLERS, Sampler, Task, relay
from dimsweep.sweeper.search.cmaes import CmaEsSampler
from dimsweep.sweeper.space.space import Choice, Range, Space
from dimsweep.sweeper.space.split import SplitSpace
from dimsweep.sweeper.space.trials import Trials
from tests.support.refused import refused
from tests.support.studies import run

Small = Callable[..., StudyPlan]


def task(**options: object) -> Task:
    split = SplitSpace(3, total=300e9, minimum=[1e9] * 3, maximum=[300e9] * 3, step=1e9)
    parameters = {
        "a": Range(1.0, 100.0, None, True, False, "us"),
        "b": Choice((1, 2, 4)),
    }
    return Task(
        "cmaes", Search(sampler="cmaes", options=options), Space(split, parameters), (TIME,)
    )


def loss(trials: Trials) -> list[tuple[float] | None]:
    """Least for 150, 100 and 50 GB/s, 10 us and b = 2; one in sixteen fails."""
    assert trials.bandwidth is not None
    losses = []
    for trial, split in zip(trials, trials.bandwidth, strict=True):
        distance = float(np.abs(split / 1e9 - [150, 100, 50]).sum())
        latency = abs(np.log(float(trial.parameters["a"].split()[0]) / 10))
        value = 1 + distance / 300 + latency + abs(trial.parameters["b"] - 2)
        losses.append(None if split[0] % 16e9 == 0 else (value,))
    return losses


def search(sampler: Sampler, trials: int) -> tuple[list[float], list[int]]:
    """Losses and the sizes of batches."""
    found, sizes, ahead = [], [], []
    while len(found) < trials or ahead:
        while len(ahead) < sampler.prefetch and sum(sizes) < trials:
            ahead.append(
                Trials.from_list(sampler.ask(min(sampler.batch or 8, trials - sum(sizes))))
            )
            sizes.append(len(ahead[-1]))
        batch = ahead.pop(0)
        values = loss(batch)
        found += [np.inf if value is None else value[0] for value in values]
        sampler.tell(batch, values, [None] * len(batch))
    return found, sizes


def test_cma_es_finds_the_least_and_its_generations_grow() -> None:
    losses, sizes = search(CmaEsSampler(task()), 6000)
    assert min(losses) < 1.01 < min(losses[:50])
    assert sizes[0] < 20
    assert sizes[-3] >= 90, "generations of several searches at once"


def test_options_of_cma_es() -> None:
    assert CmaEsSampler(task(popsize=30)).batch == 30
    with refused("search.options.popsise", "unknown-key", "'popsise'"):
        CmaEsSampler(task(popsise=30))


def test_a_trial_is_where_its_coordinates_say() -> None:
    space = task().space
    trials = space.from_unit(np.random.default_rng(0).random((20, space.n_unit)), 0, "random")
    again = space.from_unit(np.array([space.to_unit(trial) for trial in trials]), 0, "random")
    assert trials.bandwidth is not None
    assert again.bandwidth is not None
    assert (again.bandwidth == trials.bandwidth).all()
    for one, other in zip(again, trials, strict=True):
        assert one.parameters["b"] == other.parameters["b"]
        latency, wanted = (float(trial.parameters["a"].split()[0]) for trial in (one, other))
        assert latency == pytest.approx(wanted)


@pytest.mark.long
@pytest.mark.parametrize("sampler", ["random", "qmc", "grid", "cmaes"])
def test_no_batch_size_changes_the_rows(small: Small, sampler: str) -> None:
    plans = [small(f"search={sampler}", f"search.batch={n}", results=str(n)) for n in (3, 64)]
    for plan in plans:
        run(plan)
    assert load(plans[0].folder).equals(load(plans[1].folder))


@pytest.mark.long
@pytest.mark.parametrize(
    ("objective", "begin", "goes_on"),
    [("time", "descent+tpe", "cmaes"), ("cost", "tpe", "cmaes"), ("[time,cost]", "tpe", "qmc")],
)
def test_auto_hands_over_what_a_shorter_study_begins(
    small: Small, monkeypatch: pytest.MonkeyPatch, objective: str, begin: str, goes_on: str
) -> None:
    options = [f"objective={objective}", "collective.chunks=1"]
    short = small(*options, "budget.trials=20", results="short")
    assert short.study.cells[0].sampler == begin
    monkeypatch.setattr(relay, "HANDOVER", 20)
    monkeypatch.setattr("dimsweep.sweeper.search.choose.HANDOVER", 20)
    long = small(*options, "budget.trials=60", results="long")
    assert long.study.cells[0].sampler == f"{begin}+{goes_on}"
    assert SAMPLERS[f"{begin}+{goes_on}"].learns_from_slopes == (begin == "descent+tpe")
    assert run(long).done == 60
    run(short)
    rows = load(long.folder).to_pandas()
    assert (rows.origin[rows.trial >= 20] == goes_on).all()
    first = rows[rows.trial < 20].reset_index(drop=True)
    assert first.equals(load(short.folder).to_pandas())


def test_cma_es_goes_on_from_its_state() -> None:
    """As it would have, with the generations that were asked for and not told yet asked again."""
    whole, ahead = CmaEsSampler(task()), list[Trials]()
    while not ahead or ahead[0].number[0] < 2000:
        while len(ahead) < whole.prefetch:
            ahead.append(whole.ask(whole.batch))
        told = ahead.pop(0)
        whole.tell(told, loss(told), [])
    assert len(ahead) == 1
    state = json.loads(json.dumps(whole.state(n_known=int(ahead[0].number[0]))))
    resumed = CmaEsSampler(task())
    resumed.restore(state)
    again = [resumed.ask(resumed.batch)]
    for _ in range(10):
        ahead.append(whole.ask(whole.batch))
        again.append(resumed.ask(resumed.batch))
        one, other = ahead.pop(0), again.pop(0)
        assert (one.number == other.number).all()
        assert one.bandwidth is not None
        assert other.bandwidth is not None
        assert (one.bandwidth == other.bandwidth).all()
        whole.tell(one, loss(one), [])
        resumed.tell(other, loss(other), [])
