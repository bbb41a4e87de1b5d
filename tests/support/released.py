"""Predictions of the measured rows by the last release, for ``dimsweep verify clusters --against``.

    python -m tests.support.released

writes it anew, from this version.
"""

import json
import subprocess
import sys

from tests.support.golden import COMMITTED

RELEASED = COMMITTED / "clusters_released.json"


def main() -> None:
    words = [sys.executable, "-m", "dimsweep", "verify", "clusters", "--json"]
    rows = json.loads(subprocess.run(words, capture_output=True, text=True).stdout)
    kept = (
        {"name": row["name"], "unit": row["unit"], "ours": float(f"{row['ours']:.6g}")}
        for row in rows
    )
    lines = ",\n".join(json.dumps(each) for each in kept)
    RELEASED.write_text(f"[\n{lines}\n]\n", encoding="utf-8")


if __name__ == "__main__":
    main()
