"""Collective algorithms, one module a family, and the choice of one for a topology block."""

from typing import NamedTuple

from dimsweep.engine.cluster.cluster import Cluster
from dimsweep.engine.collective.algorithms.algorithm import Algorithm, AllToAllOnly, ScatterGather
from dimsweep.engine.collective.algorithms.exchanges import Bruck, Direct, Pairwise, Relay
from dimsweep.engine.collective.algorithms.grids import XyDirect, XyRings
from dimsweep.engine.collective.algorithms.halving import (
    AllReduceOnly,
    HalvingDoubling,
    Rabenseifner,
)
from dimsweep.engine.collective.algorithms.rings import RingAlgorithm, TwoLevelRings
from dimsweep.engine.collective.algorithms.trees import DoubleBinaryTree, Forest, InSwitch
from dimsweep.engine.errors import DimsweepError
from dimsweep.engine.kinds import CollectiveKind
from dimsweep.engine.network.interconnect import Interconnect
from dimsweep.engine.registry import Registry
from dimsweep.engine.topology.blocks import Block

AUTO = "auto"
ALGORITHMS: Registry[Algorithm] = Registry("collective algorithm")  # by name


def register(*algorithms: Algorithm) -> None:
    """Register algorithms by name, so that blocks and configurations may use them.

    Raises :class:`DimsweepError` for a name that another algorithm has, and for ``auto``.
    """
    for algorithm in algorithms:
        if algorithm.name == AUTO or ALGORITHMS.get(algorithm.name, algorithm) != algorithm:
            raise DimsweepError(
                f"an algorithm called {algorithm.name!r} is already registered",
                where="collective.algorithms",
                code="duplicate",
            )
        ALGORITHMS[algorithm.name] = algorithm


class Chosen(NamedTuple):
    """The algorithms of one dimension: one for all-to-alls, one for all other collectives."""

    others: Algorithm
    all_to_all: Algorithm

    def select_algorithm(self, kind: CollectiveKind) -> Algorithm:
        """Return the algorithm of a phase of ``kind``."""
        return self.all_to_all if kind is CollectiveKind.ALL_TO_ALL else self.others


def list_algorithms(block: Block) -> tuple[str, ...]:
    """Return the names of the algorithms that run on ``block``, the default first."""
    others = (a.name for a in ALGORITHMS.values() if block.name in a.blocks)
    return (*block.algorithms, *(name for name in others if name not in block.algorithms))


def algorithm_for(block: Block, name: str) -> Algorithm:
    """Return the algorithm called ``name`` on ``block`` (``auto``: the block's default).

    Raises :class:`DimsweepError` when the block does not support it.
    """
    names = list_algorithms(block)
    if name not in (AUTO, *names, *_by_network()):
        raise DimsweepError(
            f"{name!r} does not run on a {block.name}",
            where="collective.algorithms",
            hint=f"{block.name}: {', '.join((AUTO, *names, *_by_network()))}",
            code="unsupported",
        )
    return _registered(block, names[0] if name == AUTO else name)


def _by_network() -> list[str]:
    """Return the names of the algorithms that adapt to the links of any network."""
    return [algorithm.name for algorithm in ALGORITHMS.values() if algorithm.by_network]


def list_all_to_alls(block: Block) -> tuple[str, ...]:
    """Return the names of the all-to-all algorithms on ``block``, the default first."""
    others = (a.name for a in ALGORITHMS.values() if block.name in a.all_to_all_on)
    return (block.all_to_all, *others)


def chosen_algorithms(cluster: Cluster) -> tuple[Chosen, ...]:
    """Return the algorithms that the cluster's collective model chooses, one for each dimension.

    Raises :class:`DimsweepError` if the number of names is not the number of dimensions, and for an
    algorithm that does not run on its dimension's block.
    """
    dims, model = cluster.topology.dims, cluster.collectives
    names = model.algorithms or (AUTO,) * len(dims)
    all_to_alls = model.all_to_all or (AUTO,) * len(dims)
    if (interconnect := cluster.network.interconnect) is not None:
        own = _of_interconnect(interconnect)
        names = tuple(own if name == AUTO else name for name in names)
        if stray := set(names) & {*_by_network()}:
            raise DimsweepError(
                f"{stray.pop()!r} needs single links, but a {interconnect.noun} defines how "
                "collectives run on it",
                where="collective.algorithms",
                hint=f"choose auto, or leave out the {interconnect.noun}",
                code="conflict",
            )
    for key, given in (("algorithms", names), ("all_to_all", all_to_alls)):
        if len(given) != len(dims):
            raise DimsweepError(
                f"{len(given)} algorithms for {len(dims)} dimensions",
                where=f"collective.{key}",
                code="mismatch",
            )
    return tuple(
        Chosen(
            algorithm_for(dim.block, name),
            algorithm_of_phase(CollectiveKind.ALL_TO_ALL, dim.block, name, all_to_all),
        )
        for dim, name, all_to_all in zip(dims, names, all_to_alls, strict=True)
    )


def algorithm_of_phase(
    kind: CollectiveKind, block: Block, name: str, all_to_all: str = AUTO
) -> Algorithm:
    """Return the algorithm of a phase of ``kind`` on ``block``.

    ``name`` is the chosen algorithm, and ``all_to_all`` the one for all-to-alls (``auto``: the
    block's own). Raises :class:`DimsweepError` if the block does not support it.
    """
    if kind is not CollectiveKind.ALL_TO_ALL:
        return algorithm_for(block, name)
    names = list_all_to_alls(block)
    if all_to_all not in (AUTO, *names):
        raise DimsweepError(
            f"{all_to_all!r} does not run all-to-alls on a {block.name}",
            where="collective.all_to_all",
            hint=f"{block.name}: {', '.join((AUTO, *names))}",
            code="unsupported",
        )
    return _registered(block, names[0] if all_to_all == AUTO else all_to_all)


def _of_interconnect(interconnect: Interconnect) -> str:
    """Return the name of the default algorithm of collectives on ``interconnect``."""
    if interconnect.rings is None:
        return InSwitch().name
    register(rings := TwoLevelRings(*interconnect.rings))
    return rings.name


def _registered(block: Block, name: str) -> Algorithm:
    if name not in ALGORITHMS:
        raise DimsweepError(
            f"{block.name} names the algorithm {name!r}, which is not registered",
            where="collective.algorithms",
            hint=f"registered: {', '.join(ALGORITHMS)}",
            code="unknown-name",
        )
    return ALGORITHMS[name].adapt_to_block(block)


register(
    RingAlgorithm(),
    Direct(),
    HalvingDoubling(),
    InSwitch(),
    DoubleBinaryTree(),
    Rabenseifner(),
    Relay(),
    XyRings(),
    XyDirect(),
    Pairwise(),
    Bruck(),
    Forest(),
)
