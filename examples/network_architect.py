"""Which network for 2,048 H100, under 120 M USD, that three models have to share?

Two studies, since they have to be believed in unlike ways:

1. Which ports?  All that can be bought for an H100 within the budget, on full-bisection rails.  NCCL is
   simulated as it was measured, in seconds.  That simulation knows no leaf and spine switches, and so
   cannot tell an oversubscribed network from a full one: it would call the cheaper one as fast.
2. How many spines?  Four networks: rails of 200G or 400G, full or 2:1 oversubscribed.  Every message
   is simulated on its leaf and spine switches, with ECMP's hashed routes, so that 2:1 costs
   time as well as it saves money.  Which messages NCCL sends is not known, so collectives are
   rings and halving-doubling here: compare these times with one another, not with those of the first.

Prices are of the order of what was reported, and no quotation: put yours into the key cost.

    python examples/network_architect.py
"""

from pathlib import Path

import sweeper

MODELS = ["llama3_70b", "mixtral_8x22b", "nemotron4_15b"]


def main(nodes: int = 256, executor: str = "local", **smaller: object) -> tuple[sweeper.Study, ...]:
    """Run both studies, and write their pages, a picture and a spreadsheet."""
    common = {
        "cluster": "dgx_h100",
        "nodes": nodes,
        "workload": MODELS[0],
        "network": "rails",
        "workload.plan.micro_batch": 2,
        "objective": "cost_per_token",
        "executor": executor,
        **smaller,
    }
    ports = sweeper.Study(
        {
            **common,
            "name": "architect_ports",
            "grid": {"workload": MODELS},
            "search": "grid",
            "space": {"bandwidth": {"parts": True, "cost": "120 MUSD"}},
            "baseline": {"topology.bandwidth": ["450 GB/s", "200 Gb/s"]},
        }
    ).run()
    spines = sweeper.Study(
        {
            **common,
            "name": "architect_spines",
            "topology": "rail_optimised",
            "collective": "streamed",
            "fidelity": "message",
            "network.routing": "ecmp",
            "network.max_messages": 20_000_000,
            "grid": {
                "workload": MODELS,
                "network": ["rails", "rails_half"],
                "topology.bandwidth.1": ["200 Gb/s", "400 Gb/s"],
            },
            "what_if": {"800G": {"topology.bandwidth.1": "800 Gb/s"}},
        }
    ).run()
    for study in (ports, spines):
        print(study.headline)
        print(study.cells)
        print(study.what_if)
        print("the page:", study.write_page())
    return ports, spines


if __name__ == "__main__":
    main()
