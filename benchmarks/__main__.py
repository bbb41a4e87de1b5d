"""Run the benchmarks named, or all but the long ones."""

import sys
from importlib import import_module

ALL = (
    *("kernel", "message", "packets", "repurpose", "rows", "scale", "sweep", "synthesis", "driver"),
    *("tune", "search", "search-all", "composing", "astra", "models", "bound", "kernel_times"),
    "which",
)
LONG = ("search-all", "kernel_times", "repurpose", "synthesis", "which")

if __name__ == "__main__":
    for name in sys.argv[1:] or [name for name in ALL if name not in LONG]:
        if name not in ALL:
            sys.exit(f"no benchmark {name!r}; there are {', '.join(ALL)}")
        print(f"-- {name}", flush=True)
        file, _, everything = name.partition("-")
        module = import_module(f"benchmarks.{file}")
        (module.everything if everything else module.main)()
