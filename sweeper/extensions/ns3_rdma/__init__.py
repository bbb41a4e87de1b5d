"""Recorded runs of ns-3's RDMA model, compared with the packet kernel."""

from dimsweep.sweeper.extensions.verify import Verification

VERIFICATION = Verification(
    "Compare recorded runs of ns-3's RDMA model, flow by flow, to the nanosecond.",
    "runs of ASTRA-sim's ns-3 back end (tests/golden/roce)",
)
OFFERS = {"verification": {"packets": VERIFICATION}}
