"""The built-in extensions: optional features, each in a separate folder.

The core finds what they offer through :mod:`sweeper.offers` only.
"""

#: The folders of all built-in extensions, in the order in which what they offer is listed.
EXTENSIONS = ("wafer", "verify", "astra_sim", "ns3_rdma", "uet_htsim", "repurpose", "synthesis")
