"""The recorded results of other tools: the committed ones, and more where they lie beside us."""

import json
from pathlib import Path
from typing import Any

from dimsweep.sweeper.extensions.astra_sim.verify import Case, find_cases

_TESTS = Path(__file__).resolve().parents[1]
COMMITTED = _TESTS / "golden"
EXTRA_ORIGINS = _TESTS.parents[1] / "shared" / "golden"
ROOTS = [COMMITTED, *([EXTRA_ORIGINS] if EXTRA_ORIGINS.is_dir() else [])]


def golden_file(name: str) -> Path:
    """A recorded file or folder, such as ``libra/reference.json``."""
    for root in ROOTS:
        if (root / name).exists():
            return root / name
    raise FileNotFoundError(f"{name} is in none of {', '.join(map(str, ROOTS))}")


def libra() -> dict[str, Any]:
    """LIBRA's inputs and certified optima."""
    return json.loads(golden_file("libra/reference.json").read_text())


def astra_case(name: str) -> Case:
    """One recorded run of ASTRA-sim, such as ``E/p2p_ring``."""
    (case,) = find_cases([golden_file(f"astra/{name}")])
    return case


def astra_cases(section: str) -> list[Case]:
    """All recorded runs of a section; a case that several roots have counts once."""
    cases: dict[str, Case] = {}
    for root in ROOTS:
        for case in find_cases([root / "astra" / section]):
            cases.setdefault(case.folder.name, case)
    return [cases[name] for name in sorted(cases)]
