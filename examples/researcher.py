"""How much faster does Themis train than the baseline order of chunks, and on which networks?

Themis's paper (Rashidi et al., ISCA 2022) shows it on six networks, each with one split of its
bandwidth.  Here 5,418 designs are simulated: three of its workloads on 1,024 NPUs, with all 903
splits of 376 GB/s over three switched dimensions in steps of 8 GB/s, each with both orders.  Two
questions have unlike answers, and the script tells both:

- at the same split: what Themis gains on a network that is there, whatever its split;
- each order at its own best split: what it gains where the network was built for it.

    python examples/researcher.py
"""

import pandas as pd

import dimsweep

SPLIT = ["bandwidth_0_GBps", "bandwidth_1_GBps", "bandwidth_2_GBps"]


def main(minimum: str = "16 GB/s", executor: str = "local") -> dimsweep.Study:
    """Run the study, and print both kinds of factors."""
    study = dimsweep.Study(
        {
            "name": "researcher",
            "npu": "a100_234",
            "topology": "themis_3d_hetero",
            "objective": "time",
            "grid": {
                "workload": ["themis_resnet152", "themis_gnmt", "themis_dlrm"],
                "collective": ["default", "themis"],
            },
            "search": "grid",
            "space": {"bandwidth": {"total": "376 GB/s", "min": minimum, "step": "8 GB/s"}},
            "budget.trials": 1000,  # more than there are splits: all are simulated
            "what_if": None,
            "executor": executor,
        }
    ).run()
    rows = study.to_pandas()
    factors = at_the_same_split(rows)
    found = factors.groupby("workload")["factor"]
    print(f"{len(rows):,} designs simulated")
    print(study.headline)
    print("at the same split, over all splits, Themis is so many times as fast:")
    print(found.describe(percentiles=[0.1, 0.5, 0.9]).round(2).to_string())
    slower = found.agg(lambda each: (each < 1).mean())
    print("the share of splits where it is slower:")
    print(slower.map("{:.1%}".format).to_string())
    print("where it gains most, and least:")
    ends = factors.loc[found.agg(["idxmax", "idxmin"]).stack()]
    print(ends.round({"factor": 2}).to_string(index=False))
    print("the page:", study.write_page())
    return study


def at_the_same_split(rows: pd.DataFrame) -> pd.DataFrame:
    """How many times as fast Themis is as the baseline order, for each workload and split."""
    times = rows.pivot_table("time_s", ["workload", *SPLIT], "collective", aggfunc="first")
    return times.assign(factor=times["default"] / times["themis"]).reset_index()


if __name__ == "__main__":
    main()
