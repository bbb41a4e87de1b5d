"""``dimsweep verify NAME``: published or recorded results next to dimsweep's.

A published study is data: files in studies/ (:mod:`sweeper.extensions.verify.files`).  Any other
verification is a module with a click command called ``command``.  An extension offers it as a
:class:`Verification`; a plug-in registers it in
:data:`sweeper.extensions.verify.registry.VERIFICATIONS`.  A module that compares published points
has a function ``find`` that returns :class:`sweeper.extensions.verify.points.Findings`;
:func:`sweeper.extensions.verify.points.create_command` builds its command.
"""

from typing import NamedTuple


class Verification(NamedTuple):
    """A comparison with published or recorded results."""

    title: str  # one sentence
    source: str  # of the results
    is_study: bool = False  # has a page in docs/studies, and a function ``find`` in its module
    target: str = "verify:command"  # the command, as "module:object"


OFFERS = {
    "command": {"verify": "command:command"},
    "verification": {
        "megatron": Verification(
            "Compare eight published batch times of Megatron-LM on 8 to 512 A100.",
            "Korthikanti et al., MLSys 2023, tables 3 and 5",
            target="megatron:command",
        ),
        "nccl": Verification(
            "Compare measured NCCL collectives on A100, H100, B200 and L40S.",
            "nccl-tests that vendors and centres published (tests/golden/nccl.csv)",
            target="nccl:command",
        ),
        "clusters": Verification(
            "Compare training iterations measured on real clusters, times and memory.",
            "reports of Megatron, NeMo, BigScience and others (tests/golden/clusters)",
            target="clusters:command",
        ),
        "plans": Verification(
            "Compare plans that others tried: errors, memory, and the plan that dimsweep prefers.",
            "nanotron's sweep of plans, vTrain, and MLPerf training v6.0 (tests/golden/plans)",
            target="clusters.ranked:command",
        ),
        "networks": Verification(
            "Compare counts of parts, and path lengths, of published networks with generated ones.",
            "Yan et al., From ATOP to ZCube, SIGCOMM 2025, tables 3 and 7 (tests/golden/networks)",
            target="networks:command",
        ),
        "atop": Verification(
            "Search a part of ATOP's space, and compare its networks with the proven front.",
            "Yan et al., From ATOP to ZCube, SIGCOMM 2025, section 3, figure 9",
            target="atop:command",
        ),
    },
}
