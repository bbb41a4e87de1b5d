"""The built-in extensions: topics that the core does without, a folder each.

The core finds what they offer through :mod:`sweeper.offers`; nothing else of it names them.
"""

#: The folders of all built-in extensions, in the order in which what they offer is listed.
EXTENSIONS = ("wafer", "verify", "astra_sim", "ns3_rdma", "uet_htsim", "repurpose", "synthesis")
