"""Which parallel plan trains Llama-3 70B fastest on my 256 H100, beside the one that runs today?

The machine is there, so its network is no part of the question.  What runs today is the study's
baseline: every gain is against it, and the page has both side by side.  TODAY is made up, a plan as
a first attempt might have it, and nobody's: put yours there, or the gain says nothing to you.  How
sure that is, too: the model was measured on machines like this one.

    python examples/ml_engineer.py
    optuna-dashboard ml_engineer.journal
"""

from pathlib import Path

import dimsweep
from dimsweep.sweeper.export.optuna import write_optuna

TODAY = {  # an invented plan: put your own here
    "workload.parallel.tensor": 8,
    "workload.parallel.pipeline": 4,
    "workload.plan.interleave": 1,
    "workload.plan.micro_batch": 1,
    "workload.plan.recompute": "selective",
}


def main(trials: int = 400, executor: str = "local") -> dimsweep.Study:
    """Run the study, show its plans and what did not fit, and hand the trials to Optuna."""
    study = dimsweep.Study(
        {
            "name": "ml_engineer",
            "workload": "llama3_70b",
            "workload.plan.batch": 256,
            "cluster": "dgx_h100",
            "nodes": 32,
            "objective": "tokens_per_s",
            "search": "grid",
            "space": {
                "parameters": {
                    "workload.parallel.tensor": {"values": [2, 4, 8]},
                    "workload.parallel.pipeline": {"values": [2, 4, 8]},
                    "workload.plan.interleave": {"values": [1, 2, 5, 10]},
                    "workload.plan.micro_batch": {"values": [1, 2, 4]},
                    "workload.plan.recompute": {"values": ["none", "selective", "full"]},
                }
            },
            "baseline": TODAY,
            "budget.trials": trials,
            "executor": executor,
        }
    ).run()
    rows = study.to_pandas()
    tried = rows[rows["change"].isna() & (rows["origin"] != "baseline")]
    plans = tried[tried["state"] == "complete"]
    print(study.headline)
    print(f"{len(plans)} of {len(tried)} plans run; the best five:")
    shown = plans.nlargest(5, "tokens_per_s")[[*TODAY, "tokens_per_s", "mfu"]]
    print(shown.rename(columns=lambda name: name.split(".")[-1]).to_string(index=False))
    print("what one change does to it, and to what runs today:")
    changes = study.what_if[["design", "change", "times_as_fast", "error"]]
    short = changes.assign(error=changes["error"].str[:60])
    print(short.to_string(index=False, na_rep=""))
    journal = Path("ml_engineer.journal")
    if not journal.exists():
        print("for optuna-dashboard:", write_optuna(study.report, str(journal)), journal)
    print("the page:", study.write_page())
    return study


if __name__ == "__main__":
    main()
