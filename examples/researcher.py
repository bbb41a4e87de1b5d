"""How should 300 GB/s be split for a trace, if ASTRA-sim's cycles decide?

The inputs are ASTRA-sim's own files: Chakra traces, system.json and network.yml.  The same study
then runs on dimsweep's own kernel, so that the two answers can be compared: there a ring sends both
ways at once, where ASTRA-sim's sends one way, so the time is about half.

    python examples/researcher.py
"""

import sweeper


def main(trials: int = 100) -> tuple[sweeper.Study, sweeper.Study]:
    """Run both studies, compare them, and write their pages."""
    cycles = sweeper.Study.load(
        "astra_sim_split", f"budget.trials={trials}", "executor=inline", "name=researcher_cycles"
    ).run()
    native = sweeper.Study(
        {
            "name": "researcher_native",
            "workload": "chakra",
            "workload.traces": "traces/astra_sim/all_reduce.et",
            "topology.file": "traces/astra_sim/network.yml",
            "topology.tiers": [],
            "space": {"bandwidth": {"total": "300 GB/s", "min": "5 GB/s", "step": "0.5 GB/s"}},
            "budget.trials": trials,
            "executor": "inline",
        }
    ).run()
    for study in (cycles, native):
        print(study.headline, "the page:", study.write_page())
    print(sweeper.compare(cycles, native).T)
    return cycles, native


if __name__ == "__main__":
    main()
