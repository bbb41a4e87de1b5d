"""Run all benchmarks, or those named."""

from __future__ import annotations

import sys

from benchmarks import astra, kernel, message, models, scale, sweep

ALL = {
    "kernel": kernel.main,
    "message": message.main,
    "scale": scale.main,
    "sweep": sweep.main,
    "astra": astra.main,
    "models": models.main,
}

if __name__ == "__main__":
    for name in sys.argv[1:] or ALL:
        if name not in ALL:
            sys.exit(f"no benchmark {name!r}; there are {', '.join(ALL)}")
        print(f"-- {name}", flush=True)
        ALL[name]()
