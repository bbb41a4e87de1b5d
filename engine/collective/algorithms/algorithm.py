"""Base classes of collective algorithms, such as rings and trees."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dimsweep.engine.collective.rounds import MemberRounds, Shifts, SwitchRounds, all_back, in_step
from dimsweep.engine.collective.steps import PhaseSteps, Setting, Step, backwards
from dimsweep.engine.errors import DimsweepError
from dimsweep.engine.kinds import CollectiveKind
from dimsweep.engine.topology.blocks import Block

if TYPE_CHECKING:
    from dimsweep.engine.network.graph import Network


@dataclass(frozen=True)
class Algorithm(ABC):
    """How the members of a group run one phase of a collective inside one dimension.

    A new algorithm is a subclass and one more argument of ``register`` in
    :mod:`engine.collective.algorithms`. It defines :meth:`rounds`, the messages of a phase, for the
    kernels that simulate messages. :meth:`steps`, for the phase kernel, is measured from the
    rounds, or is written independently: then each checks the other
    (:func:`engine.testing.check_algorithm`), and large groups need no messages.

    A phase is a reduce-scatter, an all-gather, an all-to-all, or a *fused* all-reduce:
    reduce-scatter and all-gather in one, on the last dimension of a chunk, if the algorithm
    :attr:`fuses` them. ``p`` (2 or more) is the number of members. With ``circle`` the group closes
    a circle (:meth:`Block.closes_ring`), on which members may send both ways.
    """

    @property
    @abstractmethod
    def name(self) -> str:
        """The name by which ``collective.algorithms`` of a configuration chooses the algorithm."""

    @property
    def blocks(self) -> tuple[str, ...]:
        """Names of network blocks, such as Ring, on which the algorithm runs.

        A block may also list the algorithm itself; it need not be named here, too.
        """
        return ()

    @property
    def all_to_all_on(self) -> tuple[str, ...]:
        """Names of further blocks on which ``collective.all_to_all`` may choose the algorithm."""
        return ()

    @property
    def fuses(self) -> bool:
        """True if the algorithm has a fused all-reduce."""
        return False

    def adapt_to_block(self, block: Block) -> "Algorithm":
        """Return the algorithm for a block of this size and shape, if it depends on them."""
        return self

    @property
    def by_network(self) -> bool:
        """True if its messages depend on the links between its members.

        Such an algorithm runs on any block, and :meth:`adapt_to_members` gives its messages.
        Phases, which have no links, cannot give its time.
        """
        return False

    def adapt_to_members(self, network: "Network", ranks: Sequence[int], dim: int) -> "Algorithm":
        """Return the algorithm for these members on a network, along its dimension ``dim`` if any.

        Algorithms that do not depend on members return themselves.
        """
        return self

    def steps(self, kind: CollectiveKind, setting: Setting) -> PhaseSteps:
        """Return one phase of a ``kind`` of collective as steps for the phase kernel.

        Raises :class:`DimsweepError` for an unsupported kind.
        """
        return self.measured(kind, setting)

    def measured(self, kind: CollectiveKind, setting: Setting) -> PhaseSteps:
        """Return one phase's steps, measured by sending :meth:`rounds` over the block's links."""
        from dimsweep.engine.collective.steps import (
            measured_steps,  # a slow import, seldom needed
        )

        circle = setting.block.closes_ring(setting.n, setting.p, setting.stride)
        return measured_steps(self.rounds(kind, setting.p, circle), kind, setting)

    @abstractmethod
    def rounds(self, kind: CollectiveKind, p: int, circle: bool) -> MemberRounds | SwitchRounds:
        """Return one phase among ``p`` members as messages.

        Raises :class:`DimsweepError` for an unsupported kind.
        """

    def n_messages(self, kind: CollectiveKind, p: int, circle: bool) -> int:
        """Return the number of messages of one phase among ``p`` members (see :meth:`rounds`)."""
        rounds = self.rounds(kind, p, circle)
        if isinstance(rounds, SwitchRounds):
            return sum(len(each.sources) + len(each.targets) for each in rounds.rounds)
        strands = (strand for member in rounds.strands for strand in member)
        return sum(len(round_.send) for strand in strands for round_ in strand)

    def cannot(self, kind: CollectiveKind) -> DimsweepError:
        """Return the error for a kind of collective that the algorithm does not support."""
        return DimsweepError(
            f"{self.name!r} cannot run a phase of {kind.value}",
            where="collective.algorithms",
            code="unsupported",
        )


class ScatterGather(Algorithm):
    """Base class of algorithms whose all-gather is their reduce-scatter in reverse."""

    def scatter_steps(self, setting: Setting) -> tuple[Step, ...]:
        """Return the reduce-scatter as steps for the phase kernel."""
        return self.measured(CollectiveKind.REDUCE_SCATTER, setting).steps

    @abstractmethod
    def scatter_rounds(self, p: int, circle: bool) -> tuple[Shifts, ...]:
        """Return the reduce-scatter's messages, equal for all ``p`` members, round by round."""

    def steps(self, kind: CollectiveKind, setting: Setting) -> PhaseSteps:
        """Return a reduce-scatter or all-gather as steps."""
        p, scatter = setting.p, self.scatter_steps(setting)
        if kind is CollectiveKind.REDUCE_SCATTER:
            return PhaseSteps(scatter, setting.use.share, 1 / p, (p - 1) / p)
        if kind is CollectiveKind.ALL_GATHER:
            return PhaseSteps(backwards(scatter, p), setting.use.share, float(p), p - 1.0)
        raise self.cannot(kind)

    def rounds(self, kind: CollectiveKind, p: int, circle: bool) -> MemberRounds:
        """Return a reduce-scatter or all-gather as messages."""
        scatter = self.scatter_rounds(p, circle)
        if kind is CollectiveKind.REDUCE_SCATTER:
            return in_step(scatter, p, reduces=True)
        if kind is CollectiveKind.ALL_GATHER:
            return in_step(all_back(scatter, p), p, reduces=False)
        raise self.cannot(kind)


class AllToAllOnly(Algorithm):
    """Base class of all-to-all algorithms in which each member sends to one peer in each round."""

    def exchange_steps(self, setting: Setting) -> tuple[Step, ...]:
        """Return the all-to-all as steps for the phase kernel."""
        return self.measured(CollectiveKind.ALL_TO_ALL, setting).steps

    @abstractmethod
    def exchange_rounds(self, p: int) -> tuple[Shifts, ...]:
        """Return the all-to-all's messages among ``p`` members, equal for all, round by round."""

    def n_rounds(self, p: int) -> int:
        """Return the number of rounds among ``p`` members."""
        return len(self.exchange_rounds(p))

    def steps(self, kind: CollectiveKind, setting: Setting) -> PhaseSteps:
        """Return an all-to-all as steps."""
        if kind is not CollectiveKind.ALL_TO_ALL:
            raise self.cannot(kind)
        steps = self.exchange_steps(setting)
        sent = sum(step.count * step.bytes_fraction for step in steps)
        return PhaseSteps(steps, setting.use.share, 1.0, sent)

    def rounds(self, kind: CollectiveKind, p: int, circle: bool) -> MemberRounds:
        """Return an all-to-all as messages."""
        if kind is not CollectiveKind.ALL_TO_ALL:
            raise self.cannot(kind)
        return in_step(self.exchange_rounds(p), p, reduces=False)

    def n_messages(self, kind: CollectiveKind, p: int, circle: bool) -> int:
        """Return the number of messages of an all-to-all among ``p`` members."""
        return p * self.n_rounds(p)
