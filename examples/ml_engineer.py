"""Which parallel plan trains my model fastest, and what would Optuna and pandas make of the trials?

python examples/ml_engineer.py
optuna-dashboard ml_engineer.journal
"""

from pathlib import Path

import sweeper
from sweeper.export.optuna import write_optuna

MODEL = {
    "family": "transformer",
    "hidden": 6144,
    "layers": 32,
    "heads": 48,
    "sequence": 4096,
    "vocabulary": 64000,
}


def main(trials: int = 200) -> sweeper.Study:
    """Run the study, rank the plans, and hand the trials to Optuna."""
    study = sweeper.Study(
        {
            "name": "ml_engineer",
            "workload": "gpt3_13b",
            "workload.name": "my model",
            "workload.model": MODEL,
            "workload.plan.batch": 256,
            "topology": "dgx_h100",
            "topology.shape": "Switch(8)_Switch(16)",
            "npu": "h100",
            "cost": "dgx_h100",
            "collective.chunks_on_one_dimension": 1,
            "search": "tpe",
            "space": {
                "parameters": {
                    "workload.parallel.tensor": {"values": [1, 2, 4, 8]},
                    "workload.plan.micro_batch": {"values": [1, 2, 4]},
                    "workload.plan.recompute": {"values": ["none", "selective", "full"]},
                    "workload.plan.zero": {"values": [0, 1]},
                }
            },
            "budget.trials": trials,
            "executor": "inline",
        }
    ).run()
    rows = study.to_pandas()
    rows = rows[rows["change"].isna()]  # what-ifs are no trials of the search
    done = rows[rows["state"] == "complete"]
    print(study.headline)
    print(done.groupby("workload.parallel.tensor")[["tokens_per_s", "mfu"]].max())
    print(rows[rows["state"] != "complete"]["error"].str.split("\n").str[0].value_counts().head(3))
    journal = Path("ml_engineer.journal")
    if not journal.exists():
        print("for optuna-dashboard:", write_optuna(study.report, str(journal)), journal)
    print("the page:", study.write_page())
    return study


if __name__ == "__main__":
    main()
