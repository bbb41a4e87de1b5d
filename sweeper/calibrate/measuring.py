"""Script that measures one GPU, or the GPUs of a node, for `dimsweep calibrate`.

It needs only PyTorch (2.2 or later):

    python measuring.py FOLDER                        one GPU
    torchrun --nproc-per-node=8 measuring.py FOLDER   a node: steps on all GPUs, collectives

It writes single kernels (products, attention, memory, launches) as lines of JSON; training steps of
shortened Llamas with their plans as CSV, each with a profile of Kineto and an execution trace;
collectives as CSV; and the GPU's power.  --small tries the script on tiny sizes, also on a CPU; its
figures are meaningless.
"""

import argparse
import csv
import gc
import json
import os
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812  (as everybody calls it)
from torch import nn

# A selection of the products of transformers: rows; features in, features out.
_ROWS = (256, 1024, 2048, 4096, 8192, 16384)
_FEATURES = ((2048, 2048), (4096, 4096), (4096, 14336), (14336, 4096), (8192, 8192), (8192, 28672))
_HEADS = ((1, 32, 2048), (1, 32, 4096), (1, 32, 8192), (4, 32, 2048), (1, 64, 8192))
_TOKENS = ((2048, 4096), (8192, 4096), (8192, 8192), (16384, 8192))
# Name; layers, hidden, heads, KV heads, FFN, vocabulary; sequence, micro-batch.
_STEPS = (
    ("llama_1b_s2048", (16, 2048, 32, 8, 8192, 32000), 2048, 2),
    ("llama_1b_s8192", (16, 2048, 32, 8, 8192, 32000), 8192, 1),
    ("llama_8b_2layers", (2, 4096, 32, 8, 14336, 128256), 4096, 1),
    ("llama_8b_4layers", (4, 4096, 32, 8, 14336, 128256), 4096, 1),
    ("llama_8b_4layers_s8192", (4, 4096, 32, 8, 14336, 128256), 8192, 1),
    ("llama_8b_4layers_mb2", (4, 4096, 32, 8, 14336, 128256), 4096, 2),
    ("llama_8b_8layers", (8, 4096, 32, 8, 14336, 128256), 4096, 1),
    ("llama_70b_1layer", (1, 8192, 64, 8, 28672, 128256), 4096, 1),
)
_COLLECTIVE_BYTES = tuple(2**power for power in range(12, 31, 2))
_SMALL_STEPS = (("llama_small", (2, 64, 4, 2, 128, 512), 32, 2),)


class Machine:
    """The measured device, with its timer."""

    def __init__(self, small: bool) -> None:
        self.cuda = torch.cuda.is_available()
        if not self.cuda and not small:
            raise SystemExit("PyTorch finds no GPU; --small tries the script on a CPU")
        self.small = small
        self.ranks, self.rank = int(os.environ.get("WORLD_SIZE", 1)), int(os.environ.get("RANK", 0))
        self.local = int(os.environ.get("LOCAL_RANK", 0))
        if self.cuda:
            torch.cuda.set_device(self.local)
        self.device = torch.device(f"cuda:{self.local}" if self.cuda else "cpu")

    def wait(self) -> None:
        """Wait until the device has finished all work."""
        if self.cuda:
            torch.cuda.synchronize()

    def free(self) -> None:
        """Release the device memory that PyTorch caches."""
        gc.collect()
        if self.cuda:
            torch.cuda.empty_cache()

    def seconds(self, run: Callable[[], Any], most: int = 30, budget: float = 1.0) -> float:
        """Return the median time of a call of ``run`` on the device, after a few calls to warm up.

        At most ``most`` calls are timed, within about ``budget`` seconds.
        """
        for _ in range(1 if self.small else 3):
            run()
        self.wait()
        times, start = list[float](), time.perf_counter()
        while len(times) < (2 if self.small else most):
            times.append(self._time_once(run))
            if len(times) >= 5 and time.perf_counter() - start > budget:
                break
        return statistics.median(times)

    def _time_once(self, run: Callable[[], Any]) -> float:
        if not self.cuda:
            start = time.perf_counter()
            run()
            return time.perf_counter() - start
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        run()
        end.record()
        end.synchronize()
        return float(begin.elapsed_time(end)) / 1e3

    def describe(self) -> dict[str, Any]:
        """Return the name of the device and the versions of its software."""
        facts: dict[str, Any] = {
            "torch": torch.__version__,
            "ranks": self.ranks,
            "small": self.small,
        }
        if self.cuda:
            gpu = torch.cuda.get_device_properties(self.device)
            facts |= {"gpu": gpu.name, "memory_bytes": gpu.total_memory, "cuda": torch.version.cuda}
            facts["nccl"] = ".".join(map(str, torch.cuda.nccl.version()))
        return facts


class Cases:
    """A writer of a file of measured cases, one per line; a failed case records its error."""

    def __init__(self, file: Path, machine: Machine) -> None:
        self._file, self._machine = file.open("w", encoding="utf-8"), machine

    def add(self, measure: Callable[[], dict[str, float]], **keys: Any) -> None:
        """Write one case: its ``keys``, and the fields that ``measure`` returns."""
        try:
            case = keys | measure()
        except Exception as error:  # out of memory, or a kernel that this GPU lacks
            case = keys | {"error": f"{type(error).__name__}: {str(error)[:200]}"}
            self._machine.free()
        self._file.write(json.dumps(case) + "\n")
        self._file.flush()

    def time(self, run: Callable[[], Any], **keys: Any) -> None:
        """Write one case with the median time of a call of ``run``."""
        self.add(lambda: {"ms": self._machine.seconds(run) * 1e3}, **keys)


def measure_products(machine: Machine, cases: Cases) -> None:
    """Measure matrix products in bf16, and in fp8 if PyTorch has them."""
    rows, features = (_ROWS, _FEATURES) if not machine.small else ((64,), ((32, 48),))
    for m in rows:
        for k, n in features:
            if m * (k + n) > 2**30:
                continue
            a = torch.randn(m, k, device=machine.device, dtype=torch.bfloat16)
            b = torch.randn(n, k, device=machine.device, dtype=torch.bfloat16)
            shape = {"m": m, "n": n, "k": k}
            cases.time(
                lambda a=a, b=b: torch.mm(a, b.t()), kind="product", precision="bf16", **shape
            )
            if machine.cuda and hasattr(torch, "_scaled_mm") and hasattr(torch, "float8_e4m3fn"):
                _time_fp8_product(machine, cases, a, b, shape)
            del a, b
    machine.free()


def _time_fp8_product(
    machine: Machine, cases: Cases, a: torch.Tensor, b: torch.Tensor, shape: dict[str, int]
) -> None:
    one = torch.ones((), device=machine.device)

    def run() -> Any:
        return torch._scaled_mm(
            narrow[0], narrow[1].t(), scale_a=one, scale_b=one, out_dtype=torch.bfloat16
        )

    narrow = [each.to(torch.float8_e4m3fn) for each in (a, b)]
    cases.time(run, kind="product", precision="fp8", **shape)


def measure_attention(machine: Machine, cases: Cases) -> None:
    """Measure causal attention, forward and backward."""
    for batch, heads, n in _HEADS if not machine.small else ((1, 2, 16),):
        size = 128 if not machine.small else 8
        q, k, v = (
            torch.randn(
                batch, heads, n, size, device=machine.device, dtype=torch.bfloat16
            ).requires_grad_()
            for _ in range(3)
        )
        keys = {"kind": "attention", "batch": batch, "heads": heads, "sequence": n, "size": size}

        def forward(q: Any = q, k: Any = k, v: Any = v) -> Any:
            return F.scaled_dot_product_attention(q, k, v, is_causal=True)

        with torch.no_grad():
            cases.time(forward, direction="forward", **keys)
        try:
            out = forward()
        except RuntimeError:
            continue
        ones = torch.ones_like(out)

        def backward(out: Any = out, ones: Any = ones, of: Any = (q, k, v)) -> Any:
            return torch.autograd.grad(out, of, ones, retain_graph=True)

        cases.time(backward, direction="backward", **keys)
        del q, k, v, out, ones
    machine.free()


def measure_memory(machine: Machine, cases: Cases) -> None:
    """Measure kernels whose time is limited by memory bandwidth."""
    for tokens, hidden in _TOKENS if not machine.small else ((16, 32),):
        x, y, z = (
            torch.randn(tokens, hidden, device=machine.device, dtype=torch.bfloat16)
            for _ in range(3)
        )
        weight = torch.ones(hidden, device=machine.device, dtype=torch.bfloat16)
        kernels: dict[str, Callable[[], Any]] = {
            "copy": lambda x=x, z=z: z.copy_(x),
            "add": lambda x=x, y=y, z=z: torch.add(x, y, out=z),
            "gelu": lambda x=x: F.gelu(x, approximate="tanh"),
            "silu_times": lambda x=x, y=y: F.silu(x) * y,
            "layer_norm": lambda x=x, w=weight, h=hidden: F.layer_norm(x, (h,), w, w),
        }
        for op, run in kernels.items():
            cases.time(run, kind="elementwise", op=op, tokens=tokens, hidden=hidden)
        del x, y, z
    machine.free()


def measure_launches(machine: Machine, cases: Cases) -> None:
    """Measure the time of empty kernels that are launched in a loop."""
    x, many = torch.zeros(16, device=machine.device), 20 if machine.small else 2000

    def measure() -> dict[str, float]:
        machine.wait()
        start = time.perf_counter()
        for _ in range(many):
            x.add_(1)
        host = time.perf_counter() - start
        machine.wait()
        return {"host_us": host / many * 1e6, "end_us": (time.perf_counter() - start) / many * 1e6}

    cases.add(measure, kind="launch", op="add")


# --- training steps -----------------------------------------------------------------------------


class Block(nn.Module):
    """A layer of Llama: grouped-query attention and a gated feed-forward network."""

    def __init__(self, hidden: int, heads: int, kv: int, ffn: int) -> None:
        super().__init__()
        self.heads, self.kv, self.size = heads, kv, hidden // heads
        self.first, self.second = (nn.Parameter(torch.ones(hidden)) for _ in range(2))
        self.qkv = nn.Linear(hidden, (heads + 2 * kv) * self.size, bias=False)
        self.out = nn.Linear(hidden, hidden, bias=False)
        self.up = nn.Linear(hidden, 2 * ffn, bias=False)
        self.down = nn.Linear(ffn, hidden, bias=False)

    def forward(self, x: torch.Tensor, turns: torch.Tensor) -> torch.Tensor:
        """Apply the layer to the activations ``x``.

        ``turns`` are the angles of the rotary embedding.
        """
        b, n, hidden = x.shape
        parts = self.qkv(_normalize(x, self.first)).view(b, n, -1, self.size).transpose(1, 2)
        q, k, v = parts.split([self.heads, self.kv, self.kv], 1)
        q, k = _rotate(q, turns), _rotate(k, turns)
        k, v = (each.repeat_interleave(self.heads // self.kv, 1) for each in (k, v))
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(b, n, hidden))
        gate, up = self.up(_normalize(x, self.second)).chunk(2, -1)
        return x + self.down(F.silu(gate) * up)


def _normalize(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    wide = x.float()
    scaled = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-5)
    return scaled.to(x.dtype) * weight


def _rotate(x: torch.Tensor, turns: torch.Tensor) -> torch.Tensor:
    one, other = x.chunk(2, -1)
    cos, sin = turns.cos().to(x.dtype), turns.sin().to(x.dtype)
    return torch.cat([one * cos - other * sin, one * sin + other * cos], -1)


class Llama(nn.Module):
    """A language model of Llama's architecture."""

    def __init__(self, layers: int, hidden: int, heads: int, kv: int, ffn: int, words: int) -> None:
        super().__init__()
        self.words = nn.Embedding(words, hidden)
        self.blocks = nn.ModuleList(Block(hidden, heads, kv, ffn) for _ in range(layers))
        self.norm = nn.Parameter(torch.ones(hidden))
        self.head = nn.Linear(hidden, words, bias=False)
        self.half = hidden // heads // 2

    def forward(self, ids: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Return the loss of predicting ``targets`` from the tokens ``ids``."""
        x = self.words(ids)
        rates = 500000.0 ** (-torch.arange(self.half, device=ids.device) / self.half)
        turns = torch.outer(torch.arange(ids.shape[1], device=ids.device), rates)
        for block in self.blocks:
            x = block(x, turns)
        logits = self.head(_normalize(x, self.norm)).float()
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


class Trainer:
    """A bf16 model with an optimizer that keeps weights and moments in fp32."""

    def __init__(self, machine: Machine, shape: tuple[int, ...], sequence: int, batch: int) -> None:
        with torch.device(machine.device):
            self.model = Llama(*shape).to(torch.bfloat16)
            self.ids = torch.randint(0, shape[-1], (batch, sequence))
        self.weights = list(self.model.parameters())
        self.wide = [each.detach().float().requires_grad_() for each in self.weights]
        self.optimizer = torch.optim.AdamW(self.wide, lr=1e-4, fused=machine.cuda)
        self.run: Any = self.model
        if machine.ranks > 1:
            own = [machine.local] if machine.cuda else None
            self.run = nn.parallel.DistributedDataParallel(self.model, device_ids=own)

    def step(self) -> None:
        """Run one training step."""
        self.run(self.ids, self.ids).backward()
        with torch.no_grad():
            for wide, narrow in zip(self.wide, self.weights, strict=True):
                assert narrow.grad is not None
                wide.grad = narrow.grad.float()
            self.optimizer.step()
            torch._foreach_copy_(self.weights, self.wide)
        for each in (*self.weights, *self.wide):
            each.grad = None


def measure_steps(machine: Machine, folder: Path) -> None:
    """Measure training steps, first without and then with the profiler."""
    rows, traces = list[dict[str, Any]](), folder / "traces"
    traces.mkdir(exist_ok=True)
    for name, shape, sequence, batch in _STEPS if not machine.small else _SMALL_STEPS:
        row = {**_build_row(name, shape, sequence, batch, machine.ranks)}
        try:
            trained = Trainer(machine, shape, sequence, batch)
            row["seconds"] = _time_step(machine, trained)
            if machine.cuda and machine.rank == 0:  # a profile of a CPU has no kernels
                row["profile"] = f"traces/{name}.kineto.json"
            _trace(machine, trained, traces / name)
        except Exception as error:  # usually out of memory
            row["note"] = f"{type(error).__name__}: {str(error)[:120]}".replace(",", ";")
        rows.append(row)
        trained = None  # type: ignore[assignment]
        machine.free()
    if machine.rank == 0:
        _write_table(folder / "steps.csv", rows)


def _build_row(
    name: str, shape: tuple[int, ...], sequence: int, batch: int, ranks: int
) -> dict[str, Any]:
    """Return a row of the table of steps, by keys of dimsweep's configuration."""
    layers, hidden, heads, kv, ffn, words = shape
    model = {
        "layers": layers,
        "hidden": hidden,
        "heads": heads,
        "kv_heads": kv,
        "ffn": ffn,
        "vocabulary": words,
        "sequence": sequence,
    }
    return {
        "name": name,
        "workload": "llama3_8b",
        **{f"workload.model.{key}": value for key, value in model.items()},
        "topology.shape": f"Switch({ranks})_Switch(1)",
        "workload.plan.zero": 0,
        "workload.plan.micro_batch": batch,
        "workload.plan.micro_batches": 1,
        "seconds": "",
        "profile": "",
        "note": "",
    }


def _time_step(machine: Machine, trained: Trainer) -> float:
    for _ in range(1 if machine.small else 5):
        trained.step()
    machine.wait()
    times = []
    for _ in range(2 if machine.small else 12):
        start = time.perf_counter()
        trained.step()
        machine.wait()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def _trace(machine: Machine, trained: Trainer, path: Path) -> None:
    from torch.profiler import ExecutionTraceObserver, ProfilerActivity, profile

    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if machine.cuda else [])]
    observer = ExecutionTraceObserver()
    observer.register_callback(f"{path}.et.json")
    with profile(activities=activities) as profiled:
        observer.start()
        trained.step()
        machine.wait()
        observer.stop()
    observer.unregister_callback()
    if machine.rank == 0:
        profiled.export_chrome_trace(f"{path}.kineto.json")


def _write_table(file: Path, rows: list[dict[str, Any]]) -> None:
    if rows:
        with file.open("w", encoding="utf-8", newline="") as lines:
            writer = csv.DictWriter(lines, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)


# --- collectives and power ----------------------------------------------------------------------


def measure_collectives(machine: Machine, folder: Path) -> None:
    """Measure collectives among all ranks; the size in bytes is defined as in nccl-tests."""
    import torch.distributed as dist

    nodes = max(1, machine.ranks // int(os.environ.get("LOCAL_WORLD_SIZE", machine.ranks)))
    name, rows = machine.describe().get("gpu", "CPU"), list[dict[str, Any]]()
    for n_bytes in _COLLECTIVE_BYTES if not machine.small else (4096,):
        whole = torch.zeros(n_bytes // 2, device=machine.device, dtype=torch.bfloat16)
        part = torch.zeros(
            n_bytes // 2 // machine.ranks, device=machine.device, dtype=torch.bfloat16
        )
        whole = whole[: part.numel() * machine.ranks]
        runs: dict[str, Callable[[], Any]] = {
            "all_reduce": lambda whole=whole: dist.all_reduce(whole),
            "all_gather": lambda w=whole, p=part: dist.all_gather_into_tensor(w, p),
            "reduce_scatter": lambda w=whole, p=part: dist.reduce_scatter_tensor(p, w),
        }
        for op, run in runs.items():
            try:
                seconds = machine.seconds(run, most=20)
            except (RuntimeError, NotImplementedError):  # gloo lacks some collectives
                continue
            rows.append(
                {
                    "op": op,
                    "gpus": machine.ranks,
                    "nodes": nodes,
                    "bytes": 2 * whole.numel(),
                    "time_us": seconds * 1e6,
                    "gpu": name,
                }
            )
    if machine.rank == 0:
        _write_table(folder / "nccl.csv", rows)


@contextmanager
def recording_power(machine: Machine, file: Path) -> Iterator[None]:
    """Return a context that records the GPU's power and clocks with nvidia-smi, if installed.

    It records twice a second into ``file``.
    """
    query = "timestamp,power.draw,power.limit,clocks.sm,clocks.max.sm,temperature.gpu"
    process = None
    if machine.cuda and machine.rank == 0:
        with file.open("w", encoding="utf-8") as lines:
            try:
                command = ["nvidia-smi", f"--query-gpu={query}", "--format=csv", "-lms", "500"]
                process = subprocess.Popen([*command, "-i", str(machine.local)], stdout=lines)
            except OSError:
                file.unlink()
    try:
        yield
    finally:
        if process is not None:
            process.terminate()
            process.wait()


def main() -> None:
    """Run the script."""
    parser = argparse.ArgumentParser(description="Measure a GPU for dimsweep calibrate.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--small", action="store_true", help="tiny sizes, also on a CPU")
    arguments = parser.parse_args()
    machine, folder = Machine(arguments.small), arguments.folder
    folder.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)
    if machine.ranks > 1:
        torch.distributed.init_process_group("nccl" if machine.cuda else "gloo")
    if machine.rank == 0:
        (folder / "machine.json").write_text(json.dumps(machine.describe(), indent=1))
        parts = {
            "products": measure_products,
            "attention": measure_attention,
            "memory": measure_memory,
            "launches": measure_launches,
        }
        for name, measure in parts.items():
            start = time.time()
            measure(machine, Cases(folder / f"{name}.jsonl", machine))
            print(f"{name}: {time.time() - start:.0f} s", flush=True)

    if machine.ranks > 1:
        torch.distributed.barrier()
        measure_collectives(machine, folder)
    with recording_power(machine, folder / "power.csv"):
        measure_steps(machine, folder)
    if machine.ranks > 1:
        torch.distributed.destroy_process_group()
    if machine.rank == 0:
        print(f"{folder}: dimsweep calibrate {folder} cluster=dgx_h100 (or your machine's)")


if __name__ == "__main__":
    main()
