"""A phase of a collective as the phase kernel sees it: steps, one after another.

A phase moves ``s`` bytes (what a member holds on entering it) among the ``p`` members of a group
inside one dimension.  Its duration is

    sum over steps of  count * (hops * latency + endpoint_delay + fixed
                                + bytes_fraction * s / (share * b)
                                + reduce_fraction * s / reduce_bandwidth)

with b the NPU's bandwidth in the dimension.  The messages that pass through one port one after
another in a step are each rounded to a picosecond, as in a simulation of the single messages
(:mod:`engine.collective.rounds`).
"""

from dataclasses import dataclass, replace

from dimsweep.engine.topology.blocks import Block, LinkUse, SubgroupBandwidth


@dataclass(frozen=True)
class Step:
    """``count`` equal steps, of ``messages`` one after another; see the module's formula.

    ``fixed`` is an additional time in picoseconds, such as a library's protocol takes for a hop.
    """

    count: int
    hops: int
    bytes_fraction: float
    reduce_fraction: float = 0.0
    messages: int = 1
    fixed: int = 0


@dataclass(frozen=True)
class PhaseSteps:
    """The steps of a phase; ``share`` of the NPU's bandwidth serves them.

    ``growth`` is the bytes held afterwards over those held before; ``bytes_sent`` what an NPU
    sends, relayed bytes included, over what it holds before.
    """

    steps: tuple[Step, ...]
    share: float
    growth: float
    bytes_sent: float


@dataclass(frozen=True)
class Setting:
    """The place of a phase: ``p`` members, ``stride`` apart, in a ``block`` of ``n`` NPUs."""

    block: Block
    n: int
    p: int
    stride: int
    policy: SubgroupBandwidth = SubgroupBandwidth.PHYSICAL

    @property
    def use(self) -> LinkUse:
        """The links that the members can use."""
        return self.block.use_under(self.policy, self.n, self.p, self.stride)


def backwards(scatter: tuple[Step, ...], p: int) -> tuple[Step, ...]:
    """Return the steps of an all-gather: a reduce-scatter's in reverse order, with ``p`` times the
    entering bytes and no reductions."""
    return tuple(
        replace(step, bytes_fraction=step.bytes_fraction * p, reduce_fraction=0.0)
        for step in reversed(scatter)
    )
