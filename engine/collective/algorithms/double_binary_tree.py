"""Double binary tree: half of the bytes up and down each of two trees.

Sanders, Speck, Traeff, "Two-tree algorithms for full bandwidth broadcast, reduction and scan"
(2009).

The levels of a tree are a pipeline: bytes stream through all of them at once, in pieces so small
that the first one's way is nothing (the paper says how small).  So ports are busy for as long as
the member with the most to send needs for its bytes, and the depth of the trees is latency.
"""

from collections.abc import Sequence
from typing import NamedTuple

from dimsweep.engine.collective.algorithms.halving_doubling import AllReduceOnly
from dimsweep.engine.collective.rounds import MemberRounds, Round, RoundMessage, Strand
from dimsweep.engine.collective.steps import PhaseSteps, Setting, Step


class DoubleBinaryTree(AllReduceOnly):
    """The inner nodes of one tree are leaves of the other."""

    name = "double_binary_tree"

    def fused_steps(self, setting: Setting) -> PhaseSteps:
        """A tree is a root over a binary tree of p - 1 nodes: 1 + floor(log2(p - 1)) levels.  A
        node with two children sends a half up and two down, and, as a leaf of the other tree, one
        up; it receives as many, and reduces its children's.  Two or three members have less to do.
        """
        p, use = setting.p, setting.use
        halves, levels = min(p, 4), (p - 1).bit_length()
        busiest = Step(1, use.hops, halves / 2, min(p - 1, 2) / 2, messages=halves)
        depth = Step(2 * levels - 1, use.hops, 0.0)
        return PhaseSteps((busiest, depth), use.share, 1.0, 2 * (p - 1) / p)

    def fused_rounds(self, p: int) -> MemberRounds:
        """The second tree is the first one mirrored (even p) or shifted by one (odd p).

        The bytes of all edges set out at once.  Behind them, a message without any says that the
        last byte is there: it waits for those of the level before."""
        there = range(p - 1, -1, -1) if p % 2 == 0 else (*range(1, p), 0)
        trees = _Tree(range(p)), _Tree(there)
        slots = _slots(trees)
        return MemberRounds(
            tuple(
                (_stream(trees, slots, member), *(_ends(tree, member) for tree in trees))
                for member in range(p)
            )
        )

    def n_fused_messages(self, p: int) -> int:
        return 8 * (p - 1)  # up and down the edges of two trees, the bytes and their end


class _Edge(NamedTuple):
    """What joins a member to its parent in one of the trees."""

    tree: int
    child: int


class _Tree:
    """A tree in which ``there[i]`` is the member at place i."""

    def __init__(self, there: Sequence[int]) -> None:
        self.children: dict[int, tuple[int, ...]] = {
            member: tuple(there[child] for child in _children(len(there), place))
            for place, member in enumerate(there)
        }
        self.parents = {
            child: member for member, children in self.children.items() for child in children
        }


def _children(p: int, place: int) -> tuple[int, ...]:
    """The children of ``place`` in an in-order binary tree of 1..p-1 below the root 0.

    A place's height is its number of trailing zeros, so all odd places are leaves.
    """
    if place == 0:
        return (1 << ((p - 1).bit_length() - 1),)
    step = (place & -place) // 2
    if not step:
        return ()
    before = place - step
    while step and place + step >= p:
        step //= 2  # the right subtree is cut off: its highest place that exists
    return (before, place + step) if step else (before,)


def _slots(trees: Sequence[_Tree]) -> dict[_Edge, int]:
    """0 or 1 for each edge, another one for each of a member's edges to its children in both trees,
    and for each of those to its parents.

    So each member sends to its parents one after another, and receives from its children likewise,
    all at the same time; and then the other way.  As two edges at most meet at either end, they
    form paths and circles of even length, along which the slots take turns.
    """
    below: dict[int, list[_Edge]] = {member: [] for member in trees[0].children}
    above: dict[int, list[_Edge]] = {member: [] for member in trees[0].children}
    for number, tree in enumerate(trees):
        for child, parent in tree.parents.items():
            below[parent].append(_Edge(number, child))
            above[child].append(_Edge(number, child))
    slots: dict[_Edge, int] = {}
    for first in (edge for edges in above.values() for edge in edges):
        found = [(first, 0)]
        while found:
            edge, slot = found.pop()
            if edge not in slots:
                slots[edge] = slot
                parent = trees[edge.tree].parents[edge.child]
                found += [(beside, 1 - slot) for beside in (*below[parent], *above[edge.child])]
    return slots


def _stream(trees: Sequence[_Tree], slots: dict[_Edge, int], member: int) -> Strand:
    """The bytes of a member's edges in both trees, which it reduces when all have come."""
    send: list[tuple[int, RoundMessage]] = []
    receive: list[int] = []
    for number, tree in enumerate(trees):
        if member in tree.parents:
            parent = tree.parents[member]
            send.append((slots[_Edge(number, member)], RoundMessage(parent, 0.5)))
            receive.append(parent)
        for child in tree.children[member]:
            send.append((2 + slots[_Edge(number, child)], RoundMessage(child, 0.5)))
            receive.append(child)
    reduce = sum(len(tree.children[member]) for tree in trees) / 2
    in_turn = tuple(message for _, message in sorted(send))
    return Round((), 0.0, in_turn), Round(tuple(receive), reduce, ())


def _ends(tree: _Tree, member: int) -> Strand:
    """The ends of the streams through a member: those from below go up, that from above down."""
    children = tree.children[member]
    down = tuple(RoundMessage(child, 0.0) for child in children)
    if member not in tree.parents:
        return (Round(children, 0.0, down),)
    parent = tree.parents[member]
    return Round(children, 0.0, (RoundMessage(parent, 0.0),)), Round((parent,), 0.0, down)
