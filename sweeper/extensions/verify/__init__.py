"""``dimsweep verify NAME``: what others published or recorded, beside ours.

A published study is data: files in studies/ (:mod:`sweeper.extensions.verify.files`).  A
verification that computes what no study does is a file here with a click command called
``command``, and a line below.  One that compares the points of a published study has a function
``find`` beside it, which returns :class:`sweeper.extensions.verify.points.Findings`, and makes its
command of it with :func:`sweeper.extensions.verify.points.verification`.
"""

from typing import NamedTuple


class Verification(NamedTuple):
    """What a verification compares, in one sentence, and where that was published.

    ``is_study``: a published study, which has a page in docs/studies and a function ``find``.
    """

    what: str
    source: str
    is_study: bool = False


VERIFICATIONS = {
    "fred_fabric": Verification(
        "Compute FRED's fabric: messages, an I/O hot spot, bisections, routes of partitions.",
        "Rashidi et al., ISCA 2025 (arXiv:2406.19580), sections 3, 5 and 8",
        is_study=True,
    ),
    "megatron": Verification(
        "Compare eight published batch times of Megatron-LM on 8 to 512 A100.",
        "Korthikanti et al., MLSys 2023, tables 3 and 5",
    ),
    "nccl": Verification(
        "Compare measured NCCL collectives on A100, H100, B200 and L40S.",
        "nccl-tests that vendors and centres published (tests/golden/nccl.csv)",
    ),
    "clusters": Verification(
        "Compare training iterations measured on real clusters, times and memory.",
        "reports of Megatron, NeMo, BigScience and others (tests/golden/clusters)",
    ),
    "astra_sim": Verification(
        "Compare recorded runs of ASTRA-sim 2.0, rank by rank, to the cycle.",
        "runs of ASTRA-sim's analytical back ends (tests/golden/astra)",
    ),
    "packets": Verification(
        "Compare recorded runs of ns-3's RDMA model, flow by flow, to the nanosecond.",
        "runs of ASTRA-sim's ns-3 back end (tests/golden/roce)",
    ),
    "uet": Verification(
        "Compare recorded runs of Ultra Ethernet's public simulator, by first and last flow.",
        "runs of ultraethernet/uet-htsim (tests/golden/uet)",
    ),
    "networks": Verification(
        "Compare counts of parts, and path lengths, of published networks with generated ones.",
        "Yan et al., From ATOP to ZCube, SIGCOMM 2025, tables 3 and 7 (tests/golden/networks)",
    ),
    "atop": Verification(
        "Search a part of ATOP's space, and compare its networks with the proven front.",
        "Yan et al., From ATOP to ZCube, SIGCOMM 2025, section 3, figure 9",
    ),
}
