"""Double binary tree: half of the bytes up and down each of two trees.

Sanders, Speck, Traeff, "Two-tree algorithms for full bandwidth broadcast, reduction and scan"
(2009).
"""

from dataclasses import replace

from engine.collective.algorithms.halving_doubling import AllReduceOnly
from engine.collective.rounds import MemberRounds, Round, RoundMessage, Strand
from engine.collective.steps import PhaseSteps, Setting, Step


class DoubleBinaryTree(AllReduceOnly):
    """The inner nodes of one tree are leaves of the other."""

    name = "double_binary_tree"

    def fused_steps(self, setting: Setting) -> PhaseSteps:
        """A tree is a root over a binary tree of p - 1 nodes: 1 + floor(log2(p - 1)) levels.  A
        node takes two children's halves through its one port, one after another.  The root has one
        child; and unless p is a power of two the node below it has one, or two of which the second
        comes earlier."""
        p, use = setting.p, setting.use
        levels, full = (p - 1).bit_length(), p & (p - 1) == 0
        two = Step(levels - 1 if full else levels - 2, use.hops, 1.0, 1.0, messages=2)
        # The power of two below p has a second child if there are any places above it.
        lopsided = Step(0 if full else 1, use.hops, 0.5, 1.0 if p - 1 > 1 << (levels - 1) else 0.5)
        up = [step for step in (two, lopsided, Step(1, use.hops, 0.5, 0.5)) if step.count > 0]
        down = [replace(step, reduce_fraction=0.0) for step in reversed(up)]
        return PhaseSteps((*up, *down), use.share, 1.0, 2 * (p - 1) / p)

    def fused_rounds(self, p: int) -> MemberRounds:
        """The second tree is the first one mirrored (even p) or shifted by one (odd p)."""
        there = range(p - 1, -1, -1) if p % 2 == 0 else (*range(1, p), 0)
        place = {member: i for i, member in enumerate(there)}
        members = []
        for member in range(p):
            parent, children = _tree(p, place[member])
            second = _strand(
                None if parent is None else there[parent], tuple(there[child] for child in children)
            )
            members.append((_strand(*_tree(p, member)), second))
        return MemberRounds(tuple(members))

    def n_fused_messages(self, p: int) -> int:
        return 4 * (p - 1)  # up and down the edges of two trees


def _tree(p: int, place: int) -> tuple[int | None, tuple[int, ...]]:
    """Parent and children of ``place`` in an in-order binary tree of 1..p-1 below the root 0.

    A place's height is its number of trailing zeros, so all odd places are leaves.
    """
    if place == 0:
        top = 1 << ((p - 1).bit_length() - 1)
        return None, (top,)
    bit = place & -place
    above = (place ^ bit) | (bit << 1)
    parent = above if above < p else place ^ bit
    children = []
    if bit > 1:
        children.append(place - bit // 2)
        step = bit // 2
        while step and place + step >= p:
            step //= 2  # the right subtree is cut off: its highest place that exists
        if step:
            children.append(place + step)
    return parent, tuple(children)


def _strand(parent: int | None, children: tuple[int, ...]) -> Strand:
    down = tuple(RoundMessage(child, 0.5) for child in children)
    reduce = 0.5 * len(children)
    if parent is None:
        return (Round(children, reduce, down),)
    return (Round(children, reduce, (RoundMessage(parent, 0.5),)), Round((parent,), 0.0, down))
