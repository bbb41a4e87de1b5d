"""Run all benchmarks, or those named."""

from __future__ import annotations

import sys

from benchmarks import astra, bound, kernel, message, models, scale, search, sweep

ALL = {
    "kernel": kernel.main,
    "message": message.main,
    "scale": scale.main,
    "sweep": sweep.main,
    "search": search.main,
    "astra": astra.main,
    "models": models.main,
    "bound": bound.main,
}

if __name__ == "__main__":
    for name in sys.argv[1:] or ALL:
        if name not in ALL:
            sys.exit(f"no benchmark {name!r}; there are {', '.join(ALL)}")
        print(f"-- {name}", flush=True)
        ALL[name]()
