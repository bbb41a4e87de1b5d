"""The sweeper: studies in YAML, searched by Optuna, simulated on Ray, recorded in Parquet."""
