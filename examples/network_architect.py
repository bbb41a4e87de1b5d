"""How should 16,384 H100 be connected to train Llama-3 405B?

NVLink of a node of 8 and an InfiniBand adapter for each GPU are searched for the iteration time and
the cost together; the page says which bandwidths are worth their price, and how sure that is.

    python examples/network_architect.py
"""

import sweeper


def main(trials: int = 120, layers: int = 126) -> sweeper.Study:
    """Run the study, and write its page."""
    study = sweeper.Study(
        {
            "name": "network_architect",
            "workload": "llama3_405b",
            "workload.model.layers": layers,
            "topology": "dgx_h100",
            "topology.shape": "Switch(8)_Switch(2048)",
            "npu": "h100",
            "cost": "dgx_h100",
            "collective.chunks_on_one_dimension": 1,
            "objective": ["time", "cost"],
            "space": {
                "bandwidth": {
                    "min": ["200 GB/s", "12.5 GB/s"],
                    "max": ["900 GB/s", "100 GB/s"],
                    "step": "12.5 GB/s",
                }
            },
            "budget.trials": trials,
            "executor": "inline",
        }
    ).run()
    print(study.headline)
    print(study.front[["bandwidth_0_GBps", "bandwidth_1_GBps", "time_s", "cost_usd"]])
    print("the page:", study.write_page())
    return study


if __name__ == "__main__":
    main()
