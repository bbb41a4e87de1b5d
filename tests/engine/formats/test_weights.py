"""Trained networks in files: the same network whatever holds it, and what is told of a bad file."""

import builtins
import io
import json
import pickle
import sys
import types
import zipfile
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dimsweep.engine import DimsweepError
from dimsweep.engine.errors import Code
from dimsweep.engine.formats.weights import read_network, read_samples, write_network
from dimsweep.engine.formats.weights.archive import from_float8
from dimsweep.engine.workload import TrainedLayer, TrainedNetwork
from tests.support.refused import refused

RNG = np.random.default_rng(0)
NETWORK = TrainedNetwork(
    (
        TrainedLayer("conv", RNG.standard_normal((4, 1, 3, 3)), np.ones(4), "relu", 1, 1, 2),
        TrainedLayer("mid", RNG.standard_normal((6, 64)), np.arange(6.0), "tanh"),
        TrainedLayer("out", RNG.standard_normal((3, 6)), np.zeros(3)),
    ),
    (1, 8, 8),
)
INPUTS = RNG.standard_normal((5, 1, 8, 8))
PLAIN = TrainedNetwork(
    tuple(
        TrainedLayer(f"fc{i}", RNG.standard_normal(shape).astype(np.float32), np.zeros(shape[0]), a)
        for i, shape, a in ((9, (6, 5), "relu"), (10, (3, 6), "identity"))
    ),
    (5,),
)


def same(found: TrainedNetwork, expected: TrainedNetwork) -> bool:
    inputs = RNG.standard_normal((5, *expected.input_shape))
    return np.allclose(found.run(inputs), expected.run(inputs), atol=1e-6)


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    write_network(tmp_path / "net.npz", NETWORK, places=np.arange(3))
    found = read_network(tmp_path / "net.npz", input_shape=(1, 8, 8))
    assert [layer.name for layer in found.layers] == ["conv", "mid", "out"]
    assert np.array_equal(found.run(INPUTS), NETWORK.run(INPUTS))


def test_safetensors_are_read_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    numpy = pytest.importorskip("safetensors.numpy")
    tensors = {f"{layer.name}.weight": layer.weight for layer in PLAIN.layers}
    numpy.save_file(tensors, tmp_path / "net.safetensors")
    assert same(read_network(tmp_path / "net.safetensors"), PLAIN)
    (tmp_path / "net.safetensors").write_bytes(b"\x08\0\0\0\0\0\0\0{{{{{{{{")
    with refused("net.safetensors", "bad-syntax"):
        read_network(tmp_path / "net.safetensors")


def onnx_model(path: Path, more: Sequence[Any] = ()) -> Path:
    """NETWORK as an exporter writes it, with ``more`` nodes behind it."""
    onnx = pytest.importorskip("onnx")
    make = onnx.helper
    tensors = {
        f"{layer.name}.{key}": getattr(layer, key).astype(np.float32)
        for layer in NETWORK.layers
        for key in ("weight", "bias")
    }
    nodes = [
        make.make_node("Conv", ["x", "conv.weight", "conv.bias"], ["a"], pads=[1] * 4),
        make.make_node("Relu", ["a"], ["b"]),
        make.make_node("MaxPool", ["b"], ["c"], kernel_shape=[2, 2], strides=[2, 2]),
        make.make_node("Flatten", ["c"], ["d"]),
        make.make_node("Gemm", ["d", "mid.weight", "mid.bias"], ["e"], transB=1),
        make.make_node("Tanh", ["e"], ["f"]),
        make.make_node("Gemm", ["f", "out.weight", "out.bias"], ["y"], transB=1),
    ]
    ends = [make.make_tensor_value_info(n, 1, s) for n, s in (("x", ["n", 1, 8, 8]), ("y", None))]
    values = [onnx.numpy_helper.from_array(value, name) for name, value in tensors.items()]
    graph = make.make_graph([*nodes, *more], "net", ends[:1], ends[1:], values)
    path.write_bytes(make.make_model(graph).SerializeToString())
    return path


def test_onnx_graphs_say_all_of_a_network(tmp_path: Path) -> None:
    file = tmp_path / "net.onnx"
    assert same(read_network(onnx_model(file)), NETWORK)


@pytest.mark.parametrize(
    ("op", "given", "attributes", "code", "data"),
    [
        ("Add", ["y", "f"], {}, "unsupported", "chains"),
        ("LSTM", ["y"], {}, "unsupported", "LSTM"),
        ("Add", ["y", "mid.bias"], {}, "mismatch", "(Add)"),
        ("Conv", ["y", "conv.weight"], {"pads": "SAME"}, "wrong-type", "'pads'"),
        ("Conv", ["y", "conv.weight"], {"strides": [1.5, 1.5]}, "wrong-type", "'strides'"),
        ("MaxPool", ["y"], {}, "unsupported", "MaxPool"),
    ],
)
def test_a_node_that_is_no_layer_is_told(
    op: str, given: list[str], attributes: dict[str, Any], code: Code, data: str, tmp_path: Path
) -> None:
    onnx = pytest.importorskip("onnx")
    node = onnx.helper.make_node(op, given, ["z"], **attributes)
    with refused("", code, "net.onnx", "'z'", data):
        read_network(onnx_model(tmp_path / "net.onnx", [node]))


def state_dict(path: Path, tensors: dict[str, np.ndarray], extra: object = None) -> Path:
    """What torch.save writes, made without PyTorch by stand-ins for what its pickle names."""
    torch, utils = types.ModuleType("torch"), types.ModuleType("torch._utils")
    storage = type("FloatStorage", (), {"__module__": "torch"})

    def _rebuild_tensor_v2() -> None:
        raise AssertionError("it is only named")

    _rebuild_tensor_v2.__module__ = "torch._utils"
    _rebuild_tensor_v2.__qualname__ = "_rebuild_tensor_v2"
    torch.FloatStorage, utils._rebuild_tensor_v2 = storage, _rebuild_tensor_v2  # type: ignore

    class Tensor:
        def __init__(self, key: str, value: np.ndarray) -> None:
            self.key, self.value = key, value

        def __reduce__(self) -> Any:
            shape = self.value.shape
            strides = tuple(int(np.prod(shape[i + 1 :])) for i in range(len(shape)))
            hooks: OrderedDict[str, object] = OrderedDict()
            return _rebuild_tensor_v2, (self, 0, shape, strides, False, hooks)

    class Pickler(pickle.Pickler):
        def persistent_id(self, thing: object) -> Any:
            # A tensor is pickled once as such, and within it as its storage.
            if isinstance(thing, Tensor) and thing.key in begun:
                return "storage", storage, thing.key, "cpu", thing.value.size
            if isinstance(thing, Tensor):
                begun.add(thing.key)
            return None

    begun: set[str] = set()
    numbered = {name: Tensor(str(i), value) for i, (name, value) in enumerate(tensors.items())}
    content = OrderedDict(numbered) if extra is None else {"optimizer": extra}
    sys.modules |= {"torch": torch, "torch._utils": utils}
    try:
        buffer = io.BytesIO()
        Pickler(buffer, protocol=2).dump(content)
    finally:
        del sys.modules["torch"], sys.modules["torch._utils"]
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("net/data.pkl", buffer.getvalue())
        archive.writestr("net/byteorder", "little")
        for tensor in numbered.values():
            archive.writestr(f"net/data/{tensor.key}", tensor.value.astype("<f4").tobytes())
    return path


def test_state_dicts_are_read_without_pytorch(tmp_path: Path) -> None:
    tensors = {f"{layer.name}.weight": layer.weight for layer in PLAIN.layers}
    assert same(read_network(state_dict(tmp_path / "net.pt", tensors)), PLAIN)


def test_a_pickle_of_anything_else_runs_no_code(tmp_path: Path) -> None:
    path = state_dict(tmp_path / "net.pt", {}, extra=builtins.exec)
    with refused("net.pt", "unsupported", ".exec"):
        read_network(path)


def test_a_pickle_does_not_ask_for_a_longer_memory_than_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python makes a table as long as the number of the thing that is to be remembered."""
    monkeypatch.chdir(tmp_path)
    remembered = b"\x80\x02}r" + (1 << 24).to_bytes(4, "little") + b"."
    with refused("", "bad-syntax", "memo"):
        read_network(packed("net/data.pkl", remembered, b"more"))


def safetensors_of(path: Path, dtype: str, data: bytes, shape: list[int]) -> Path:
    pytest.importorskip("safetensors")
    tensor = {"dtype": dtype, "shape": shape, "data_offsets": [0, len(data)]}
    header = json.dumps({"a.weight": tensor}).encode()
    path.write_bytes(len(header).to_bytes(8, "little") + header + data)
    return path


@pytest.mark.parametrize("dtype", ["BOOL", "F8_E8M0"])
def test_safetensors_of_other_types_are_refused_by_name(dtype: str, tmp_path: Path) -> None:
    path = safetensors_of(tmp_path / "net.safetensors", dtype, bytes(2), [1, 2])
    with refused("a.weight", "wrong-type", dtype):
        read_network(path)


@pytest.mark.parametrize(
    ("dtype", "data"),
    [
        ("BF16", np.array([1.5, -0.25, 384.0, 2.0**-9], "<f4").tobytes()),
        ("F16", np.array([1.5, -0.25, 384.0, 2.0**-9], "<f2").tobytes()),
        ("F32", np.array([1.5, -0.25, 384.0, 2.0**-9], "<f4").tobytes()),
        ("F64", np.array([1.5, -0.25, 384.0, 2.0**-9], "<f8").tobytes()),
        ("F8_E4M3", bytes([0x3C, 0xA8, 0x7C, 0x01])),
        ("F8_E5M2", bytes([0x3E, 0xB4, 0x5E, 0x18])),
        ("I32", np.array([1, -2, 384, 0], "<i4").tobytes()),
    ],
)
def test_values_of_safetensors(dtype: str, data: bytes, tmp_path: Path) -> None:
    if dtype == "BF16":  # the upper half of each F32
        data = b"".join(data[i + 2 : i + 4] for i in range(0, len(data), 4))
    path = safetensors_of(tmp_path / "net.safetensors", dtype, data, [2, 2])
    (layer,) = read_network(path).layers
    right = [1, -2, 384, 0] if dtype == "I32" else [1.5, -0.25, 384.0, 2.0**-9]
    assert layer.weight.ravel().tolist() == right


def test_all_8_bit_floats_but_nan(tmp_path: Path) -> None:
    """E4M3 reaches 448; E5M2 is the upper half of a float16."""
    bits = np.arange(256, dtype=np.uint8)
    e4m3 = from_float8(bits, exponent=4)
    assert np.nanmax(e4m3) == 448
    assert np.isnan(e4m3).sum() == 2
    assert e4m3[0x08] == 2.0**-6
    assert (np.diff(e4m3[:0x7F]) > 0).all()
    e5m2 = from_float8(bits, exponent=5)
    assert e5m2[0x7B] == 57344
    assert np.isinf(e5m2).sum() == 2


@pytest.mark.parametrize("package", ["onnx", "safetensors"])
def test_a_package_that_is_missing_is_named(
    package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with refused("", "inaccessible", f"pip install {package}"):
        read_network(tmp_path / f"net.{package}")


@pytest.mark.parametrize(
    ("arrays", "place", "data"),
    [
        ({"w": np.ones(3)}, "net.npz", "NAME.weight"),
        ({"a.weight": np.ones((2, 3)), "a.mean": np.ones(2)}, "a.mean", ""),
        ({"a.weight": np.ones((2, 3)), "a.bias": np.ones(3)}, "a", "(3,)"),
        ({"a.weight": np.ones(3)}, "a", "(3,)"),
        ({"a.weight": np.ones((2, 1, 3, 3))}, "a", "1x8x8"),
        ({"a.weight": np.ones((2, 3)), "a.activation": np.array("rleu")}, "", "'relu'"),
        ({"a.weight": np.ones((2, 3)), "a.pool": np.array(1.5)}, "a.pool", ""),
        ({"a.weight": np.array([["x"]])}, "a.weight", ""),
    ],
)
def test_a_bad_file_is_told_with_its_tensor(
    arrays: dict[str, Any], place: str, data: str, tmp_path: Path
) -> None:
    np.savez(tmp_path / "net.npz", **arrays)
    with pytest.raises(DimsweepError) as caught:
        read_network(tmp_path / "net.npz")
    assert str(caught.value).startswith(str(tmp_path / "net.npz"))
    assert caught.value.where.endswith(place) and data in str(caught.value)


def test_files_that_are_none_of_it(tmp_path: Path) -> None:
    (tmp_path / "net.npz").write_bytes(b"PK nothing")
    (tmp_path / "net.pt").write_bytes(b"nothing")
    cases: list[tuple[str, Code, str]] = [
        ("net.npz", "bad-syntax", "npz"),
        ("net.pt", "bad-syntax", "PyTorch state dict"),
        ("net.h5", "unsupported", ".npz"),
        ("gone.npz", "inaccessible", ""),
    ]
    for name, code, data in cases:
        with refused(name, code, data):
            read_network(tmp_path / name)


def packed(name: str, content: bytes, more: bytes = b"") -> Path:
    """An archive whose checksums are right, whatever is in it."""
    path = Path("packed.pt" if more else "packed.npz")
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(name, content)
        if more:
            archive.writestr("net/data/0", more)
    return path


def test_small_files_that_ask_for_more_memory_than_there_is(tmp_path: Path) -> None:
    """A header of a huge shape, and an archive that grows when it is unpacked."""
    header = io.BytesIO()
    shape = {"descr": "<f8", "fortran_order": False, "shape": (10**6, 10**6)}
    np.lib.format.write_array_header_1_0(header, shape)
    with zipfile.ZipFile(tmp_path / "net.npz", "w") as archive:
        archive.writestr("a.weight.npy", header.getvalue())
    with refused("a.weight", "too-many", "4 GiB"):
        read_network(tmp_path / "net.npz")
    np.savez(tmp_path / "net.npz", **{"a.weight": np.array([print])})
    with refused("net.npz", "bad-syntax", "npz file of plain arrays"):
        read_network(tmp_path / "net.npz")
    data = (tmp_path / "net.npz").read_bytes()
    with zipfile.ZipFile(tmp_path / "net.npz", "w") as archive:
        archive.writestr("a.weight.npy", data)
        archive.infolist()[0].file_size = (5 << 30) - 1  # as the directory will say
    with refused("net.npz", "too-many", "4 GiB"):
        read_network(tmp_path / "net.npz")


def test_samples_need_inputs_and_as_many_labels(tmp_path: Path) -> None:
    np.savez(tmp_path / "s.npz", inputs=np.ones((2, 3)), labels=np.array([0, 1]))
    assert read_samples(tmp_path / "s.npz").calibration is None
    np.savez(tmp_path / "s.npz", inputs=np.ones((2, 3)), labels=np.array([0]))
    with refused("labels", "mismatch", "2 inputs"):
        read_samples(tmp_path / "s.npz")
    np.savez(tmp_path / "s.npz", inputs=np.ones((2, 3)))
    with refused("s.npz", "missing", "'labels'"):
        read_samples(tmp_path / "s.npz")
