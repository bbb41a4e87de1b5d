"""``dimsweep verify NAME``: what others published or recorded, beside ours.

A verification is a file here with a click command called ``command``, and a line below.  One that
compares the points of a published study has a function ``find`` beside it, which returns
:class:`sweeper.verify.points.Findings`, and makes its command of it with
:func:`sweeper.verify.points.verification`.
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
    "wafer": Verification(
        "Reproduce ASTRA-sim 2.0's comparison of wafers with conventional clusters, with Themis.",
        "Won et al., ASTRA-sim 2.0 (ISPASS 2023), case studies 1 and 2",
        is_study=True,
    ),
    "themis": Verification(
        "Reproduce Themis's evaluation: all-reduces, chunk counts, training on six systems.",
        "Rashidi et al., ISCA 2022, figures 8, 10, 11 and 12",
        is_study=True,
    ),
    "what_is_left": Verification(
        "Ask how much of LIBRA's gain is left with Themis, in-switch reduction, or both.",
        "Won et al., LIBRA, ISPASS 2024 (its optima); the question is new",
        is_study=True,
    ),
    "fred": Verification(
        "Reproduce FRED's wafer: bandwidths, hot spots, routes, four models on five fabrics.",
        "Rashidi et al., ISCA 2025 (arXiv:2406.19580), section 8",
        is_study=True,
    ),
    "roce": Verification(
        "Ask whether congestion control matters to the collectives of training, packet by packet.",
        "Khan et al., HotI 2022 (arXiv:2207.10898)",
        is_study=True,
    ),
    "roce_training": Verification(
        "Ask whether congestion control matters to iterations of DLRM, GPT-3 13B and ResNet-50.",
        "Khan et al., HotI 2022 (arXiv:2207.10898)",
        is_study=True,
    ),
    "tcp": Verification(
        "Ask which topology suffers first when the global switch's buffer shrinks: DLRM over TCP.",
        "Rashidi et al., HotI 2020 (ASTRA-sim with ns-3's TCP/IP)",
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
    "hierarchical_memory": Verification(
        "Compare ZeRO-Infinity with hierarchical memory for a mixture of experts on 256 GPUs.",
        "Won et al., ASTRA-sim 2.0 (ISPASS 2023), case study 3",
        is_study=True,
    ),
    "comet": Verification(
        "Compare clusters for Transformer-1T by degree, memory expansion, network and node.",
        "Kadiyala et al., COMET (arXiv:2211.16648)",
        is_study=True,
    ),
    "compute_capability": Verification(
        "Show how much communication is exposed as NPUs get faster, on a torus of 2 x 4 x 4.",
        "Rashidi et al., ASTRA-sim (ISPASS 2020)",
        is_study=True,
    ),
}
