"""What Hydra composes of the files of conf/ and studies/, kept while they stay as they are."""

import os
import pickle
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml
from hydra import compose as hydra_compose
from hydra import initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from hydra.core.plugins import Plugins
from omegaconf import DictConfig, OmegaConf, flag_override

from dimsweep.engine import DimsweepError
from dimsweep.engine.formats import explain_yaml
from dimsweep.sweeper.config import schema
from dimsweep.sweeper.config.hydra_keys import SEARCH_PATH
from dimsweep.sweeper.config.loader import Loader
from dimsweep.sweeper.config.options import state_of
from dimsweep.sweeper.config.overrides import Word
from dimsweep.sweeper.config.parts.places import find_study, homes, installed, names_file
from dimsweep.sweeper.config.search_path import Options, SearchPath, Studies
from dimsweep.sweeper.config.workload import KINDS

ROOT = "dimsweep"
# What Hydra would compose for its own applications: a seventh of the time.
_HYDRAS = (
    *("env", "help", "hydra_help", "hydra_logging", "job_logging"),
    *("launcher", "output", "sweeper"),
)


@lru_cache(maxsize=512)
def compose_files(chosen: tuple[Word, ...], state: int) -> tuple[dict[str, str], bytes, bytes]:
    """The option chosen for each group, and, each a DictConfig, pickled, what the files say under
    the ``chosen`` options and Hydra's own configuration.

    This takes most of the time of a composition, and the cells of a grid mostly choose the same
    files: it is kept while the files stay in the same ``state``.
    """
    with hydra_knowing(chosen), warnings.catch_warnings():
        warnings.filterwarnings("error", message="provider=")  # of a place that there is not
        try:
            composed = hydra_compose(ROOT, overrides=lines_of(chosen), return_hydra_config=True)
        except UserWarning as error:
            raise DimsweepError(str(error).rstrip("."), where=SEARCH_PATH) from error
        except yaml.YAMLError as error:  # of a place that Hydra's own sources read
            raise explain_yaml(error, Path(SEARCH_PATH)) from error
    choices = dict(composed.hydra.runtime.choices)
    keys: Any = composed  # whatever they are: the schema refuses what is no text
    own = _masked(composed, [key for key in keys if key != "hydra"])
    return choices, pickle.dumps(own), pickle.dumps(_masked(composed, ["hydra"]))


def _masked(composed: DictConfig, keys: list[Any]) -> DictConfig:
    """Some keys of what nobody needs any more, which are not copied."""
    taken = OmegaConf.create()
    with flag_override(taken, "no_deepcopy_set_nodes", True):
        for key, value in composed.items_ex(resolve=False, keys=keys):
            taken[key] = value
    return taken


def lines_of(chosen: Sequence[Word]) -> list[str]:
    """Overrides as Hydra's own commands take them."""
    return [*(f"hydra/{group}=[]" for group in _HYDRAS), *(word.line for word in chosen)]


def state_of_files(chosen: Sequence[Word]) -> int:
    """Changes with every change of a file that may be composed."""
    folders = [str(home) for kind in ("conf", "studies") for home in homes(kind)]
    named = [name for word in chosen for name in word.studies]
    files = [str(file) for name in named if (file := find_study(name))]
    states = [state_of(file) for each in (*map(_options_below, folders), files) for file in each]
    if None in states:  # it is so new that another change might not show
        states.append(time.time_ns())
    return hash((*states, *KINDS.items()))


def _options_below(folder: str) -> Iterator[str]:
    """The files of options in a folder and in those below it, wherever these lead."""
    for above, _, names in os.walk(folder):
        yield from (f"{above}/{name}" for name in names if name.endswith(".yaml"))


@contextmanager
def hydra_knowing(chosen: Sequence[Word]) -> Iterator[None]:
    """Hydra, initialised on our configuration folders; ``chosen`` tells which study matters."""
    schema.register()
    Studies.given = dict(_given(chosen))
    for plugin in (SearchPath, Options, Studies):
        Plugins.instance().register(plugin)
    with initialize_config_dir(str(installed("conf")), version_base="1.3"):
        hydra: Any = GlobalHydra.instance().hydra
        hydra.config_loader = Loader(hydra.config_loader.get_search_path())
        yield


def _given(chosen: Sequence[Word]) -> Iterator[tuple[str, Path]]:
    """The studies that overrides choose, each with its file; raises :class:`DimsweepError` if a
    path leads to none, and leaves it to Hydra to tell which names there are."""
    for name in (name for word in chosen for name in word.studies):
        if file := find_study(name):
            yield file.stem, file
        elif names_file(name):
            raise DimsweepError("there is no such file", where=name)
