"""Where a configuration came from: which file, override or grid set a key."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from omegaconf import OmegaConf

from dimsweep.engine import DimsweepError
from dimsweep.sweeper.config.axes import AXES, SEARCHED
from dimsweep.sweeper.config.options import read_options
from dimsweep.sweeper.config.overrides import Word, read
from dimsweep.sweeper.config.parts.part import keys_in
from dimsweep.sweeper.config.parts.places import find_option, find_study


@dataclass(frozen=True)
class Origin:
    """Where a configuration came from: overrides, and the options of the config groups."""

    overrides: tuple[str, ...]
    choices: Mapping[str, str]
    varied: tuple[str, ...] = field(default=(), kw_only=True)  # dotted keys that a grid sets

    @property
    def study(self) -> str | None:
        """The study's name, if there is a study."""
        study = self.choices.get("study", "none")
        return None if study == "none" else study

    @property
    def words(self) -> list[Word]:
        """The overrides, as they were read."""
        return list(map(read, self.overrides))

    @property
    def overridden(self) -> list[str]:
        """The keys of the overrides."""
        return [word.key for word in self.words if not word.is_hydras]

    @property
    def set_in_study(self) -> list[str]:
        """The dotted keys that the study's file gives values, those of config groups in full."""
        file = self.study and find_study(self.study)
        plain = OmegaConf.to_container(read_options(file).node) if file else {}
        return [key for key, each in keys_in(plain) if not isinstance(each, dict) or not each]

    def given(self, key: str) -> Any:
        """What the last override of ``key`` itself says, or None."""
        said = [word for word in self.words if word.key == key and word.sets_a_key]
        return said[-1].parsed.value() if said and not said[-1].sweeps else None

    def blame(self, error: DimsweepError) -> DimsweepError:
        """The same error, with the file that its key came from."""
        where = f"{error.where} (in {self.source(error.where)})" if error.where else ""
        return type(error)(error.what, where=where, hint=error.hint)

    @contextmanager
    def blaming(self) -> Iterator[None]:
        """Errors of what is done meanwhile say the file that their key came from."""
        try:
            yield
        except DimsweepError as error:
            raise self.blame(error) from error.__cause__

    def source(self, key: str) -> str:
        """The file (or the command line, or the grid) that most likely set ``key``."""
        if any(re.match(rf"{re.escape(name)}(?![^.\[])", key) for name in self.varied):
            return "the grid"
        group = re.split(r"[.\[]", key, maxsplit=1)[0]
        named = {word.key: word.text for word in self.words if not word.chooses}
        swept = [word for word in self.words if word.sweeps]
        named |= {f"{at}.{each.key}": each.text for each in swept for at in (AXES, SEARCHED)}
        setting = [n for n in named if key == n or key.startswith(tuple(n + m for m in ".[ :"))]
        setting = setting or [n for n in named if n.startswith(f"{key}.")]
        if setting:
            return f"the override {named[max(setting, key=len)]!r}"
        study = self.study and find_study(self.study)
        if study and any(str(k).partition(".")[0] == group for k in read_options(study).node):
            return str(study)
        return str(find_option(group, str(self.choices.get(group))) or "the configuration")
