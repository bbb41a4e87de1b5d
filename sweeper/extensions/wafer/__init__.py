"""Wafers: the network of a wafer as a configuration key, and FRED's published fabric."""

from dimsweep.sweeper.extensions.verify import Verification

VERIFICATION = Verification(
    "Compute FRED's fabric: messages, an I/O hot spot, bisections, routes of partitions.",
    "Rashidi et al., ISCA 2025 (arXiv:2406.19580), sections 3, 5 and 8",
    is_study=True,
    target="fred_fabric:command",
)
OFFERS = {
    "network": {"wafer": "network:WAFER"},
    "verification": {"fred_fabric": VERIFICATION},
}
