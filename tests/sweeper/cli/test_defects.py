"""A defect of ours or of a library's is told as such, and never as one of the user's input."""

import json
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from dimsweep.engine import DimsweepError, needing
from dimsweep.engine.extensions.synthesis import read_model
from dimsweep.engine.formats.chakra import read_trace
from dimsweep.engine.formats.pytorch import convert_traces
from dimsweep.engine.formats.weights import read_network as read_weights
from dimsweep.engine.network.graph_files import read_network
from dimsweep.engine.units import BYTES, _magnitude, _registry, parse
from dimsweep.sweeper.cli.main import DEFECT, main
from dimsweep.sweeper.config import composition, options
from dimsweep.sweeper.config.compose import compose
from dimsweep.sweeper.ledger.cells import find_bookmark
from dimsweep.sweeper.ledger.place import parse_place, translating_store_errors
from dimsweep.sweeper.ledger.record import read_record
from dimsweep.sweeper.ledger.stored import load
from dimsweep.sweeper.run.executor import cluster
from dimsweep.sweeper.run.loop import StudyPlan
from dimsweep.sweeper.search.optuna_sampler import _build_sampler
from tests.engine.formats.test_weights import onnx_model, state_dict
from tests.faults.doors.formats import GRAPHML, HOST, LINKS, some_safetensors
from tests.support.studies import SMALL, run

SAYS = "got an unexpected keyword argument 'rng'"
MODEL = {
    **{"format": "dimsweep trace model 2", "keys": {}, "degrees": [], "layouts": {}, "parts": {}},
    **{"jobs": 1, "in_order": False, "rank_spread": 0.0},
}
Use = Callable[[], object]


def spoilt(*_: object, **__: object) -> Any:
    """What a library's entry does in a version that we were not written for."""
    raise TypeError(f"f() {SAYS}")


def file(name: str, content: str | bytes) -> Path:
    path = Path(name)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def npz() -> Use:
    np.savez("w.npz", **{"a.weight": np.ones((2, 3))})
    return partial(read_weights, "w.npz")


def onnx() -> Use:
    return partial(read_weights, onnx_model(Path("w.onnx")))


def quantity() -> Use:
    _magnitude.cache_clear()
    _registry.cache_clear()
    return lambda: parse("1 GB", BYTES)


def configuration() -> Use:
    compose(SMALL)  # so that Hydra has found its plugins
    composition._compose_options.cache_clear()
    composition._families.clear()
    options._read_pickled.cache_clear()
    return lambda: compose(SMALL)


def sampler() -> Use:
    import optuna

    search = SimpleNamespace(seed=1, options={"n_startup_trials": 3})
    task: Any = SimpleNamespace(name="tpe", search=search)
    return lambda: _build_sampler(optuna.samplers.TPESampler, task)


def ray() -> Use:
    class Ray:
        def shutdown(self) -> None:
            pass

    def start() -> None:
        with cluster._report_start_errors(Ray()):
            json.loads("{}")

    return start


# What is spoilt, and what makes whatever uses it.
ENTRIES: dict[str, tuple[str, Callable[[], Use]]] = {
    "units": ("pint.UnitRegistry", quantity),
    "quantity": ("pint.facets.plain.registry.GenericPlainRegistry.parse_units", quantity),
    "JSON network": ("networkx.DiGraph", lambda: partial(read_network, file("n.json", LINKS))),
    "GraphML": ("networkx.DiGraph", lambda: partial(read_network, file("n.xml", GRAPHML))),
    "XML": (
        "xml.etree.ElementTree.fromstring",
        lambda: partial(read_network, file("n.xml", GRAPHML)),
    ),
    "npz": ("zipfile.ZipFile", npz),
    "array in npz": ("numpy.lib.format.read_array", npz),
    "state dict": (
        "numpy.lib.stride_tricks.as_strided",
        lambda: partial(read_weights, state_dict(Path("w.pt"), {"a.weight": np.ones((2, 3))})),
    ),
    "safetensors": (
        "safetensors.deserialize",
        lambda: partial(read_weights, file("w.safetensors", some_safetensors()["net.safetensors"])),
    ),
    "ONNX": ("onnx.load", onnx),
    "tensor in ONNX": ("onnx.numpy_helper.to_array", onnx),
    "attribute in ONNX": ("onnx.helper.get_attribute_value", onnx),
    "trace": (
        "dimsweep.engine.formats.chakra.trace_files.ParseDict",
        lambda: partial(read_trace, file("t.json", '{"version": "0.0.4"}\n{"id": 1}')),
    ),
    "PyTorch": (
        "dimsweep.engine.formats.pytorch.recorded.HostOp",
        lambda: partial(convert_traces, [file("h.json", HOST)], []),
    ),
    "model of traces": (
        "dimsweep.engine.extensions.synthesis.model.TraceModel",
        lambda: partial(read_model, file("m.json", json.dumps(MODEL))),
    ),
    "configuration": ("hydra.compose", configuration),
    "file of it": ("omegaconf.OmegaConf.load", configuration),
    "options of a sampler": ("optuna.samplers._tpe.sampler.LazyRandomState", sampler),
    "record": (
        "dimsweep.sweeper.ledger.record.checksum",
        lambda: partial(read_record, file("study.json", '{"checksum": "0"}').absolute().parent),
    ),
    "bookmark": (
        "dimsweep.sweeper.ledger.cells.checksum",
        lambda: partial(find_bookmark, file("search-00000.json", "{}").absolute().parent, 0),
    ),
    "object store": (
        "dimsweep.sweeper.ledger.place.UPath",
        lambda: partial(parse_place, "s3://bucket/results"),
    ),
    "Ray": ("json.loads", ray),
}


@pytest.mark.parametrize("name", ENTRIES)
def test_a_defect_is_not_told_as_one_of_the_input(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    entry, make = ENTRIES[name]
    use = make()
    monkeypatch.setattr(entry, spoilt)
    with pytest.raises(TypeError, match=SAYS):
        use()


def test_a_defect_within_an_object_store_is_none_of_the_store(tmp_path: Path) -> None:
    pytest.importorskip("s3fs")
    with (
        pytest.raises(TypeError, match=SAYS),
        translating_store_errors(parse_place("memory://bucket")),
    ):
        spoilt()


def test_an_optional_package_that_is_broken_is_not_told_as_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    missing = DimsweepError("it is not installed")
    monkeypatch.setitem(sys.modules, "absent", None)
    with pytest.raises(DimsweepError, match="it is not installed"), needing("absent", missing):
        import absent  # noqa: F401
    (tmp_path / "broken.py").write_text("import absent\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="absent"), needing("broken", missing):
        import broken  # noqa: F401
    with pytest.raises(ImportError, match="nothing"), needing("json", missing):
        from json import nothing  # noqa: F401


def test_a_command_names_the_defect_and_what_to_report(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("dimsweep.engine.units._registry", spoilt)
    _magnitude.cache_clear()
    assert main(["simulate", *SMALL]) == DEFECT == 70
    told = capsys.readouterr().err
    assert told.startswith("Traceback")
    *_, raised, sentence = told.splitlines()
    assert SAYS in raised
    assert sentence.startswith("error: this is a defect of dimsweep or of a library that it uses")
    assert "not of your input" in sentence
    for name in ("dimsweep 0.", "Python 3.", "numpy ", "pint ", "networkx ", "ray "):
        assert name in sentence
    assert "pytest" not in sentence


def test_too_little_memory_is_a_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*_: object) -> None:
        raise MemoryError("9 TiB")

    monkeypatch.setattr("dimsweep.engine.units._registry", full)
    _magnitude.cache_clear()
    assert main(["simulate", *SMALL]) == 1
    assert capsys.readouterr().err == "error: there is not enough memory: 9 TiB\n"


def test_a_trial_that_fails_by_a_defect_says_so_and_where(
    small: Callable[..., StudyPlan], monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = small("executor=inline", "budget.trials=3")
    monkeypatch.setattr("dimsweep.sweeper.run.executor.evaluate.account", spoilt)
    run(plan)
    rows = load(plan.folder).to_pylist()
    assert {row["state"] for row in rows} == {"failed"}
    told = rows[0]["error"]
    assert told.startswith("a defect of dimsweep or of a library, not of the trial: TypeError: f()")
    assert SAYS in told
    assert "(in dimsweep.sweeper.run.executor.evaluate, line " in told
