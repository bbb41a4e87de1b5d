"""Tables of measured training iterations: a row is a :class:`Measurement`, or is left out.

The columns are described in tests/golden/clusters (its README): model, plan, GPU, and one measured
value with its unit.
"""

import csv
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, TextIO

import yaml

from dimsweep.engine import DimsweepError

GIB = 2.0**30
_COLUMNS = {"complete", "source", "model", "gpu", "gpus", "metric", "value", "unit"}
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
# Results of MLPerf and plans of Sailor are a file a run: the submitter's, or the cluster's, are one
# document.
_ONE_A_RUN = re.compile(r"mlcommons/[^:]*:[^/]*/results|eth-easl/sailor:.*/clariden")
# Some print used device memory: Sailor asks nvidia-smi after each instruction of a pipeline
# (get_total_used_mem of deepspeed/pipe_engine.py), BLOOM's notes have its thousands of MiB (80 of
# an A100's 81,251 MiB).
_OF_DEVICES = ("eth-easl/sailor",)
_NOTED = re.compile(r"mem/GPU (\d+)GB")
_NOTED_UNIT = 1000 * 2.0**20
_INCONSISTENT = {
    "GPT-NEO/N4/plan_config_N4_D4": "its gradients alone take as long as its iteration, and it has "
    "the memory of another model's run",
}
_BLOCKS = re.compile(r"layers per stage \(embedding, blocks, head counted\) ([\d/]+)")


class LeftOut(Exception):  # noqa: N818  (it is the answer to a row, not a fault)
    """Exception with the reason why a measured row is not compared with a simulation."""


@dataclass(frozen=True)
class Measurement:
    """One measured iteration: seconds, or bytes of the fullest GPU's memory (the other is None).

    ``data`` counts all replicas of the dense weights, also those that hold different experts.
    """

    table: str
    source: str
    model: str
    shape: Mapping[str, int]
    latent: bool  # multi-head latent attention: a table prints MLA instead of kv_heads
    gpu: str
    gpus: int
    tensor: int
    pipeline: int
    data: int
    context: int
    expert: int
    interleave: int
    micro_batch: int
    batch: int
    precision: str
    recompute: str
    sharding: str
    note: str
    seconds: float | None = None
    memory: float | None = None
    rate: float | None = None  # FLOP/s of a GPU, until models.py makes seconds of it
    counts_recomputation: bool = False  # in that rate
    node: int = 0  # GPUs of a node; 0: as many as its system's nodes have

    @property
    def origin(self) -> str:
        """Document that published the run, without version; a folder if each run has a document."""
        folder = _ONE_A_RUN.match(self.source)
        return folder[0] if folder else self.source.split("@")[0].split(" (")[0]

    @property
    def stage_layers(self) -> tuple[int, ...]:
        """Number of layers of each stage, if noted.

        The note counts embedding and logits as blocks.
        """
        said = _BLOCKS.search(self.note)
        blocks = [int(n) for n in said[1].split("/")] if said else []
        if len(blocks) < 2:
            return ()
        blocks[0] -= 1
        blocks[-1] -= 1
        return tuple(blocks)

    @property
    def used(self) -> float | None:
        """Bytes of the device's memory in use, if printed in the document."""
        said = _NOTED.search(self.note)
        of_device = self.memory if self.source.startswith(_OF_DEVICES) else None
        return int(said[1]) * _NOTED_UNIT if said else of_device

    @property
    def plan(self) -> str:
        """Short text of the plan, such as tp8 pp12 dp4 mb2."""
        parts = {
            "tp": self.tensor,
            "pp": self.pipeline,
            "cp": self.context,
            "ep": self.expert,
            "dp": self.data,
            "vp": self.interleave,
        }
        short = " ".join(f"{name}{n}" for name, n in parts.items() if n > 1)
        return f"{short} mb{self.micro_batch}".strip()


def find_tables(folder: Path) -> list[Path]:
    """Return the CSV files of a folder that have the columns of training iterations."""
    if not folder.is_dir():
        raise DimsweepError(
            "no such folder",
            where=str(folder),
            hint="--data DIR with tables as in tests/golden/clusters",
            code="inaccessible",
        )
    found = [file for file in sorted(folder.glob("*.csv")) if set(_read_header(file)) >= _COLUMNS]
    if not found:
        raise DimsweepError(
            "no table of training iterations",
            where=str(folder),
            hint=f"a CSV file with the columns {', '.join(sorted(_COLUMNS))} and a plan's",
            code="missing",
        )
    return found


def read_table(file: Path) -> Iterator[tuple[int, Measurement | LeftOut]]:
    """Yield the line number of each row with its measurement, or the reason to leave it out."""
    with open_table(file) as lines:
        reader = csv.DictReader(lines)
        for row in reader:
            filled = {key: (value or "").strip() for key, value in row.items() if key}
            try:
                yield reader.line_num, _parse_measurement(file.stem, fill_from_script(filled))
            except LeftOut as why:
                yield reader.line_num, why


def _read_header(file: Path) -> list[str]:
    with open_table(file) as lines:
        return next(csv.reader(lines), [])


@contextmanager
def open_table(file: Path) -> Iterator[TextIO]:
    """Open a CSV file; raise :class:`DimsweepError` for one that cannot be read."""
    try:
        with file.open(encoding="utf-8", newline="") as lines:
            yield lines
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        problem = f"cannot read the table: {error}"
        raise DimsweepError(problem, where=str(file), code="inaccessible") from error


def _parse_measurement(table: str, row: Mapping[str, str]) -> Measurement:
    if row["complete"].startswith("left out: "):
        raise LeftOut(row["complete"].removeprefix("left out: "))
    if not row["complete"].startswith("yes"):
        missing = row["complete"].removeprefix("no:").strip()
        raise LeftOut(f"the source does not print {missing or 'the whole plan'}")
    numbers = {
        name: _parse_integer(row, name)
        for name in ("gpus", "tp", "pp", "dp", "micro_batch", "global_batch", "seq")
    }
    shape = {name: _parse_integer(row, name) for name in ("layers", "hidden", "heads")}
    shape |= {
        name: _parse_integer(_choose_vocabulary(row), name, 0)
        for name in ("ffn", "kv_heads", "vocab")
    }
    made = Measurement(
        table=table,
        source=row["source"],
        model=row["model"],
        shape=shape | {"sequence": numbers["seq"]},
        latent=row.get("kv_heads") == "MLA",
        gpu=row["gpu"],
        gpus=numbers["gpus"],
        tensor=numbers["tp"],
        pipeline=numbers["pp"],
        data=numbers["dp"],
        context=_parse_integer(row, "cp", 1),
        expert=_parse_integer(row, "ep", 1),
        interleave=_parse_interleave(row),
        micro_batch=numbers["micro_batch"],
        batch=numbers["global_batch"],
        precision=row.get("precision", ""),
        recompute=row.get("recompute", ""),
        sharding=row.get("zero_or_fsdp", ""),
        note=row.get("note", ""),
        **_parse_value(row),
    )
    for where, why in _INCONSISTENT.items():
        if where in made.source:
            raise LeftOut(why)
    ranks = made.tensor * made.pipeline * made.data * made.context
    if ranks != made.gpus:
        raise LeftOut(f"its plan has {ranks} ranks, but {made.gpus} GPUs")
    return made


def _parse_integer(row: Mapping[str, str], name: str, otherwise: int | None = None) -> int:
    """Return the first integer of a cell such as "51,200 or 50,304" or "8 (model-parallel)"."""
    found = _NUMBER.search(row.get(name, "").replace(",", ""))
    if found:
        return int(float(found[0]))
    if otherwise is None:
        raise LeftOut(f"its {name} is {row.get(name) or 'not given'}")
    return otherwise


def _choose_vocabulary(row: Mapping[str, str]) -> dict[str, str]:
    """Return the row with its stack's vocabulary size, from "51,200 (NeMo) / 50,304 (maxtext)"."""
    parts = row.get("vocab", "").split(" / ")
    stacks = (re.search(r"\((\w+)\)", part) for part in parts)
    named = zip(parts, stacks, strict=True)
    own = (part for part, stack in named if stack and stack[1].lower() in row["source"].lower())
    return {**row, "vocab": next(own, parts[0])}


def _parse_interleave(row: Mapping[str, str]) -> int:
    words = row.get("vp", "")
    if words.startswith(">") or "not stated" in words:
        raise LeftOut("the number of its virtual stages is not stated")
    return _parse_integer(row, "vp", 1)


def _parse_value(row: Mapping[str, str]) -> dict[str, Any]:
    """Return the fields of the measured value: seconds, bytes, or a rate."""
    value, unit = _NUMBER.search(row["value"].replace(",", "")), row["unit"]
    if value is None:
        raise LeftOut(f"its value is {row['value']!r}")
    number = float(value[0])
    tokens = _parse_integer(row, "global_batch") * _parse_integer(row, "seq")
    if unit in ("GiB", "B") and row["metric"].lower().startswith("memory"):
        return {"memory": number * (GIB if unit == "GiB" else 1)}
    if unit == "tokens/s":
        return {"seconds": tokens / number}
    if unit == "tokens/s/GPU":
        return {"seconds": tokens / number / _parse_integer(row, "gpus")}
    if unit in ("samples/s", "sequences/s"):
        return {"seconds": _parse_integer(row, "global_batch") / number}
    if unit.lower().startswith("tflop/s"):
        again = re.search("hardware|recompute", row["metric"].lower())
        return {"rate": number * 1e12, "counts_recomputation": bool(again)}
    if unit in ("s", "ms") and re.search("iteration|step", row["metric"].lower()):
        return {"seconds": number / (1000 if unit == "ms" else 1)}
    raise LeftOut(f"{row['metric']} in {unit} is no time of an iteration")


FITTED: tuple[str, ...] = (
    # conf/npu/a100.yaml: the eight times of `dimsweep verify megatron`, which are in no table.
    # Eager PyTorch's launches and memory passes, and FlashAttention 1 (plans.py); the H100's
    # efficiency in bf16.
    "mosaicml/llm-foundry",
    # The B200's efficiency in bf16, and how long Megatron-LM's host takes to issue a kernel.
    "MooreThreads/SimuMax",
    # The B200's products in fp8, mxfp8 and nvfp4, relative to bf16, and the host's time for kernels
    # of layers with experts; both: the H100's launches.
    "NVIDIA-NeMo/Megatron-Bridge",
    "NVIDIA/NeMo:docs",
    # The host's time for a kernel of Megatron-DeepSpeed on one node of A100.
    "VIA-Research/vTrain",
)


def is_fitted(origin: str) -> bool:
    """Return whether constants of the simulator were fitted to a document's rows."""
    return any(origin.startswith(document) for document in FITTED)


_FILE = Path(__file__).with_name("scripts.yaml")
_SLICES = re.compile(r"(\d+)x v5[ep]-\d+")


def fill_from_script(row: Mapping[str, str]) -> dict[str, str]:
    """Return the row with missing columns filled in from its source's training script.

    A ``complete`` row, and a row without a script, is returned unchanged.  If the script cannot be
    simulated, the column ``complete`` gets the reason.
    """
    found = dict(row)
    script = next((each for each in _read_scripts() if _script_matches(each, row)), None)
    if script is None or found["complete"].startswith("yes"):
        return found
    if why := script.get("left_out"):
        return found | {"complete": f"left out: {why}"}
    columns = {name: str(value) for name, value in script["columns"].items()}
    chips, tensor = int(found["gpus"]), int(columns["tp"])
    said = _SLICES.search(found["note"])
    slices = int(said[1]) if said else 1
    if slices > 1 and "/v5p/" in found["source"]:
        why = "the network between slices of TPU v5p is not published"
        return found | {"complete": f"left out: {why}"}
    return (
        found
        | columns
        | {
            "complete": "yes",
            "kv_heads": columns["heads"],
            "seq": "2048",
            "vocab": "32000",
            "pp": "1",
            "dp": str(chips // tensor),
            "micro_batch": str(script["batch"] * tensor),
            "global_batch": str(script["batch"] * chips),
            "zero_or_fsdp": f"FSDP {chips // slices // tensor}",
            "metric": f"{found['metric']}, {slices} slices",
        }
    )


def _script_matches(script: Mapping[str, Any], row: Mapping[str, str]) -> bool:
    names = ("source", "model")
    return all(re.search(script[name], row[name].lower()) for name in names)


@cache
def _read_scripts() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = yaml.safe_load(_FILE.read_text(encoding="utf-8"))
    return found
