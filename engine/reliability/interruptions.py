"""How often failures interrupt a training job, and which fraction of its time still trains."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from dimsweep.engine.errors import DimsweepError, InfeasibleError, prefixing_errors
from dimsweep.engine.network.graph import Device
from dimsweep.engine.settings import Bounds, Count, Share, check_settings
from dimsweep.engine.units import BANDWIDTH, LONG_TIME, format_duration

# --- checkpoints ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Checkpoint:
    """Settings of checkpoints: training pauses briefly, then overlaps with writing the rest."""

    #: Time of training between two checkpoints; by default the best.
    interval: Annotated[float, LONG_TIME, Bounds(above=0)] | None = None
    #: Bandwidth of the storage, from all NPUs together.
    bandwidth: Annotated[float, BANDWIDTH, Bounds(above=0)] | None = None
    #: Time that training stands still for each checkpoint; by default until it is written.
    stall: Annotated[float, LONG_TIME, Bounds(above=0)] | None = None

    def __post_init__(self) -> None:
        check_settings(self)

    def pause_times(self, state: float) -> tuple[float, float]:
        """Return the seconds that a checkpoint pauses training, and the seconds until it is stored.

        A checkpoint has ``state`` bytes (0: unknown).  Raises :class:`DimsweepError` naming the key
        if the times cannot be derived, and if the next checkpoint would begin before this one is
        stored.
        """
        if self.bandwidth is not None and state:
            written = state / self.bandwidth
            stall = written if self.stall is None else min(self.stall, written)
            self._check_interval(written - stall)
            return stall, written - stall
        if self.stall is not None:
            return self.stall, 0.0
        if self.bandwidth is not None:
            problem = "the size of a checkpoint of this workload is unknown, and no stall is given"
            hint = "give the time that training pauses for a checkpoint, such as stall=30 s"
            raise DimsweepError(problem, where="stall", hint=hint, code="missing")
        if self.interval is not None:
            return 0.0, 0.0
        raise DimsweepError(
            "the duration of a checkpoint is unknown",
            hint="give bandwidth=100 GB/s (of the storage), stall=30 s, or interval=60 min",
            code="missing",
        )

    def _check_interval(self, writing: float) -> None:
        if self.interval is not None and self.interval < writing:
            raise DimsweepError(
                f"{format_duration(self.interval)}, but each checkpoint is written for "
                f"{format_duration(writing)} during training, so the next one would begin too soon",
                where="interval",
                hint=f"{format_duration(1.5 * writing)}, or a storage with more bandwidth",
                code="conflict",
            )


# --- spares ---------------------------------------------------------------------------------------


_MOST = 100_000  # nodes


@dataclass(frozen=True)
class Spares:
    """Spare nodes that replace broken ones: ``nodes`` spares of ``npus`` NPUs each.

    A share ``broken`` of all interruptions breaks the node on which they began; the node is back
    after ``repair`` seconds on average.

    A job that lacks a node waits.  As many nodes as there are spares can be in repair during
    training, and one more while the job waits, when nothing breaks.  By Erlang's loss formula
    (1917), all n + 1 are in repair for the share of the time

        B(n + 1, a),  B(0, a) = 1,  B(k, a) = a B(k - 1, a) / (k + a B(k - 1, a))

    with a = ``broken`` x ``repair`` / (time between interruptions).  It assumes that nodes break
    independently, at the same rate during restarts as during training, that spares do not break
    before they are used, and that repairs do not wait for each other.  The distribution of repair
    times about their mean makes no difference (Sevastyanov 1957).
    """

    #: Spare nodes.
    nodes: Annotated[int, Bounds(at_least=0, at_most=_MOST)]
    #: NPUs of a node.
    npus: Count
    #: Mean time until a broken node is back.
    repair: Annotated[float, LONG_TIME, Bounds(above=0)]
    #: Share of all interruptions that break a node.
    broken: Share = 1.0

    def __post_init__(self) -> None:
        check_settings(self)

    def mean_broken_nodes(self, between: float) -> float:
        """Return the offered load: the mean number of nodes in repair if the job never waited.

        The job is interrupted every ``between`` seconds while it does not wait.
        """
        return self.broken * self.repair / between

    def waiting_share(self, between: float) -> float:
        """Return the fraction of the time in which the job waits for a repair.

        ``between`` is the mean time (s) between interruptions.
        """
        *_, last = _lost(self.mean_broken_nodes(between), self.nodes)
        return last

    def cost_multiplier(self, training: int, billed: int) -> float:
        """Return the cost of the cluster with spares, divided by the cost of the ``billed`` NPUs.

        ``training`` NPUs run the job; billed NPUs beyond these serve as spares.  A spare node costs
        as much as another node, including its share of the network.
        """
        return max(1.0, (training + self.nodes * self.npus) / billed)

    def share_per_node(self, training: int, between: float) -> float:
        """Return the training throughput per paid node, relative to nodes that never break.

        The reference has no spares.  ``training`` is the number of NPUs of the job, and ``between``
        the mean time (s) between interruptions.
        """
        nodes = self._needed(training)
        return nodes * (1 - self.waiting_share(between)) / (nodes + self.nodes)

    def find_best_count(self, training: int, between: float) -> int:
        """Return the number of spare nodes that maximises :meth:`share_per_node`."""
        nodes = self._needed(training)
        shares = _lost(self.mean_broken_nodes(between), min(_MOST, 1000 + nodes))
        return max(range(len(shares)), key=lambda n: (1 - shares[n]) / (nodes + n))

    def _needed(self, training: int) -> int:
        return -(-training // self.npus)


def _lost(load: float, nodes: int) -> list[float]:
    """Return the fractions of the time that a job waits, with 0, 1, ... ``nodes`` spare nodes."""
    found, lost = list[float](), 1.0
    for k in range(1, nodes + 2):
        lost = load * lost / (k + load * lost)
        found.append(lost)
    return found


# --- renewal --------------------------------------------------------------------------------------
# Training that is interrupted and resumes from its last checkpoint, as a renewal process.
#
# Interruptions occur at a constant rate, during restarts as well: the times between them are
# exponentially distributed with mean M.  After every tau seconds of training a checkpoint is taken.
# Training pauses for s seconds and continues; after w more seconds the checkpoint is stored.  An
# interruption loses all training after the last stored checkpoint, and R seconds until training
# continues.  The expected time from one checkpoint to the next is
#
#     E = M e^((R + w)/M) (e^((tau + s)/M) - 1)
#
# which for w = 0 is Daly's ("A higher order estimate of the optimum checkpoint interval for
# restart dumps", Future Generation Computer Systems 22, 2006).  With w > 0, an interruption in the
# first w seconds after a checkpoint also loses the interval before it.  Training is w seconds ahead
# of a checkpoint when it is stored; a restart repeats these seconds, so each attempt but the first
# must last tau + s + w.
#
# To first order in 1/M the share tau / E is the effective training time ratio of Kokolis et al.
# ("Revisiting reliability in large-scale machine learning research clusters", HPCA 2025), (1 - (R
# + tau/2)/M) / (1 + s/tau).
#
# If no spare is left for a broken node, the job waits for a repair before it restarts.  Nothing
# else happens meanwhile, not even interruptions, so all other shares refer to the remaining time.


_Seconds = float | NDArray[np.float64]
_SMALL = 1e-8  # below it, Lambert's W has lost half of its digits


@dataclass(frozen=True)
class Renewal:
    """How a job spends the time between two interruptions; times are in seconds.

    ``interval`` is the training between two checkpoints (one, or several to compare), ``stall`` the
    pause for each, ``beside`` the overlapped time until it is stored, ``restart`` the time after an
    interruption, and ``between`` the mean time between interruptions.  ``waiting`` is the share of
    the time in which the job waits for a repair; all other shares refer to the rest.
    """

    interval: _Seconds
    stall: float
    beside: float
    restart: float
    between: float
    waiting: float = 0.0

    @property
    def effective_share(self) -> _Seconds:
        """Share of the time in training that is not lost: effective training time ratio (ETTR)."""
        tried = (self.interval + self.stall) / self.between
        lost = (self.restart + self.beside) / self.between
        # Divided by the exponentials, which overflow where interruptions are frequent.
        kept = self.interval / self.between * np.exp(-tried - lost) / -np.expm1(-tried)
        return (1 - self.waiting) * kept

    @property
    def writing_share(self) -> _Seconds:
        """Share of the time in which training pauses for checkpoints that it does not lose."""
        return self.effective_share * self.stall / self.interval

    @property
    def restarting_share(self) -> float:
        """Share of the time in restarts, including restarts that are interrupted."""
        return (1 - self.waiting) * -math.expm1(-self.restart / self.between)

    @property
    def repeated_share(self) -> _Seconds:
        """Share of the time in training that interruptions undo, so that it must be repeated."""
        others = self.effective_share + self.writing_share + self.restarting_share + self.waiting
        return np.maximum(0.0, 1 - others)


def find_best_interval(stall: float, between: float) -> float:
    """Return the training time (s) between checkpoints that maximises the effective share.

    It does not depend on the restart and on the time until a checkpoint is stored; 0 without a
    stall.

    The share is largest where e^((tau + s)/M) (1 - tau/M) = 1, so tau = M (1 + W(-e^(-s/M - 1)))
    with Lambert's W on its principal branch (Daly 2006), which is near Young's sqrt(2 s M) (1974)
    for small s.
    """
    share = stall / between
    if share < _SMALL:
        return between * (math.sqrt(2 * share) - share * 2 / 3)
    from scipy.special import lambertw  # needed by few runs

    return between * (1 + float(lambertw(-math.exp(-share - 1)).real))


# --- reliability ----------------------------------------------------------------------------------


_LEAST = 1e-6  # minimum share of the time for training


@dataclass(frozen=True)
class Reliability:
    """Settings: the failure rate of a training cluster, its checkpoints and its spare nodes."""

    #: NPU time between interruptions of any cause: a job of N NPUs is interrupted every
    #: `npu_time` / N in the mean.
    npu_time: Annotated[float, LONG_TIME, Bounds(above=0)]
    #: Time from an interruption until training continues: it is noticed, a spare replaces the
    #: broken node, and the last checkpoint is read.
    restart: Annotated[float, LONG_TIME, Bounds(at_least=0, below=math.inf)]
    #: Checkpoints of training.
    checkpoint: Checkpoint = field(default_factory=Checkpoint)
    #: Nodes that replace broken ones; None: one is always there.
    spares: Spares | None = None

    def __post_init__(self) -> None:
        check_settings(self)

    def renewal(
        self, n_npus: int, state: float, iteration: float | NDArray[np.float64] = 0.0
    ) -> Renewal:
        """Return how a job on ``n_npus`` NPUs spends its time between interruptions.

        Its checkpoints have ``state`` bytes (0: unknown) and are at least one ``iteration`` apart
        (s, shape (P,) or a scalar).

        Raises :class:`DimsweepError` naming the key for checkpoints that are too close or of
        unknown duration, and :class:`InfeasibleError` if no time is left for training.
        """
        between = self.npu_time / n_npus
        with prefixing_errors("checkpoint"):
            stall, beside = self.checkpoint.pause_times(state)
        interval = self.checkpoint.interval or max(find_best_interval(stall, between), beside)
        waiting = 0.0 if self.spares is None else self.spares.waiting_share(between)
        found = Renewal(interval, stall, beside, self.restart, between, waiting)
        if 1 - waiting < _LEAST:
            raise InfeasibleError(
                f"{n_npus:,} NPUs are interrupted every {format_duration(between)}, and with so few"
                " spare nodes the job waits for repairs nearly all the time",
                where="spares",
                hint="more spare nodes, or a shorter repair",
            )
        if found.effective_share < _LEAST:
            raise InfeasibleError(
                f"{n_npus:,} NPUs are interrupted every {format_duration(between)}, which leaves"
                " no time to train between restarts and checkpoints",
                where="npu_time",
                hint="a shorter restart, more frequent checkpoints, faster storage or fewer NPUs",
            )
        if np.all(iteration <= interval):
            return found
        return replace(found, interval=np.maximum(interval, iteration))

    def cost_multiplier(self, training: int, billed: int) -> float:
        """Return the cost with spare nodes, divided by the cost of the ``billed`` NPUs.

        ``training`` NPUs run the job.
        """
        return 1.0 if self.spares is None else self.spares.cost_multiplier(training, billed)


# --- outages --------------------------------------------------------------------------------------


_YEAR = 365.25 * 86400


@dataclass(frozen=True)
class Outage:
    """A group of identical network devices, and the effect of one of them being down.

    ``down`` is the fraction of the time that each device is down.  ``speeds`` holds the speed of
    training, as a fraction of its speed on the whole network, once per simulated outage.
    """

    what: str
    count: int
    down: float
    speeds: tuple[float, ...]

    @property
    def slowdown(self) -> float:
        """Mean factor by which an iteration takes longer while one device is down."""
        return len(self.speeds) / sum(self.speeds)

    @property
    def time(self) -> float:
        """Share of the time in which at least one device is down."""
        return float(1 - (1 - self.down) ** self.count)


def compute_mean_speed(outages: Iterable[Outage]) -> float:
    """Return the mean speed of training, as a fraction of the speed of the whole network.

    Devices fail independently, and the speeds of concurrent outages multiply: each outage
    contributes a factor 1 - u (1 - v), with its share u of the time and the speed v.
    """
    left = 1.0
    for outage in outages:
        lost = 1 - sum(outage.speeds) / len(outage.speeds)
        left *= (1 - outage.down * lost) ** outage.count
    return left


def compute_share_down(device: Device) -> float | None:
    """Return the fraction of the time that a device is down.

    It follows from the failures per year of operation and the repair time; None if either is
    unknown.
    """
    if device.fails is None or device.repair is None:
        return None
    down = device.fails * device.repair / _YEAR
    return down / (1 + down)
