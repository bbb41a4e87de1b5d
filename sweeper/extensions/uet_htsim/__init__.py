"""Recorded runs of Ultra Ethernet's public simulator, compared with the packet kernel."""

from dimsweep.sweeper.extensions.verify import Verification

VERIFICATION = Verification(
    "Compare recorded runs of Ultra Ethernet's public simulator, by first and last flow.",
    "runs of ultraethernet/uet-htsim (tests/golden/uet)",
)
OFFERS = {"verification": {"uet": VERIFICATION}}
