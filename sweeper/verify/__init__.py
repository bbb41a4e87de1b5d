"""``dimsweep verify NAME``: measurements that others published or recorded, against our times.

A verification is a file here with a click command called ``command``, and a line below.
"""

VERIFICATIONS = {
    "megatron": "Compare eight published batch times of Megatron-LM on 8 to 512 A100.",
    "nccl": "Compare measured NCCL collectives on A100, H100, B200 and L40S.",
    "clusters": "Compare training iterations measured on real clusters, times and memory.",
    "astra_sim": "Compare recorded runs of ASTRA-sim 2.0, rank by rank, to the cycle.",
}
