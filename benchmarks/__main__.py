"""Run the benchmarks named, or all but the long ones."""

import sys

from benchmarks import (
    astra,
    bound,
    driver,
    kernel,
    kernel_times,
    message,
    models,
    packets,
    repurpose,
    scale,
    search,
    sweep,
    synthesis,
    tune,
)

ALL = {
    "kernel": kernel.main,
    "message": message.main,
    "packets": packets.main,
    "repurpose": repurpose.main,
    "scale": scale.main,
    "sweep": sweep.main,
    "synthesis": synthesis.main,
    "driver": driver.main,
    "tune": tune.main,
    "search": search.main,
    "search-all": search.everything,
    "astra": astra.main,
    "models": models.main,
    "bound": bound.main,
    "kernel_times": kernel_times.main,
}
LONG = ("search-all", "kernel_times", "repurpose", "synthesis")

if __name__ == "__main__":
    for name in sys.argv[1:] or [name for name in ALL if name not in LONG]:
        if name not in ALL:
            sys.exit(f"no benchmark {name!r}; there are {', '.join(ALL)}")
        print(f"-- {name}", flush=True)
        ALL[name]()
