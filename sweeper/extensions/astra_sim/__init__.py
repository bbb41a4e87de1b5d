"""ASTRA-sim 2.0: its command line, its input files as a workload, and recorded cycle counts."""

from dimsweep.sweeper.extensions.verify import Verification

VERIFICATION = Verification(
    "Compare recorded runs of ASTRA-sim 2.0, rank by rank, to the cycle.",
    "runs of ASTRA-sim's analytical back ends (tests/golden/astra)",
)
OFFERS = {
    "command": {"astra": "command:command"},
    "workload": {"astra_sim": "workload:AstraSim"},
    "verification": {"astra_sim": VERIFICATION},
}
