"""Completion of commands and Hydra overrides in a shell."""

from __future__ import annotations

from hydra.core.config_loader import ConfigLoader
from hydra.core.global_hydra import GlobalHydra
from hydra.core.object_type import ObjectType
from hydra.plugins.completion_plugin import DefaultCompletionPlugin

from engine import DimsweepError
from sweeper.config.compose import ROOT, hydra

_SCRIPTS = {
    "bash": """\
_dimsweep() {
    local IFS=$'\\n'
    COMPREPLY=($(dimsweep complete-words "${COMP_LINE:0:$COMP_POINT}" 2>/dev/null))
    local word="${COMP_LINE:0:$COMP_POINT}"; word="${word##* }"
    # Bash splits words at "=" and replaces only what follows it.
    if [[ "$word" == *=* && "$COMP_WORDBREAKS" == *=* ]]; then
        COMPREPLY=("${COMPREPLY[@]#"${word%=*}="}")
    fi
}
complete -o nospace -F _dimsweep dimsweep""",
    "zsh": """\
_dimsweep() { compadd -S '' -- ${(f)"$(dimsweep complete-words "$LBUFFER" 2>/dev/null)"} }
compdef _dimsweep dimsweep""",
    "fish": """\
complete -c dimsweep -f -a '(dimsweep complete-words (commandline -cp) 2>/dev/null)'""",
}


def script(shell: str) -> str:
    """The completion script of a shell; bash: ``eval "$(dimsweep completion bash)"``."""
    if shell not in _SCRIPTS:
        raise DimsweepError(f"no completion for {shell!r}", hint=f"shells: {', '.join(_SCRIPTS)}")
    return _SCRIPTS[shell]


def complete(words: list[str], commands: list[str]) -> list[str]:
    """What the last word of a command line (``dimsweep sweep study=``) may become."""
    line = (words[0] if words else "").split(" ")[1:]
    if len(line) <= 1:
        return [f"{name} " for name in commands if name.startswith(line[0] if line else "")]
    if line[0] not in ("simulate", "sweep", "report", "show"):
        return []
    with hydra():
        plugin = _Plugin(_loader())
        return [match for match in plugin.matches(" ".join(line[1:])) if "hydra" not in match]


def group_options(groups: list[str]) -> dict[str, list[str]]:
    """The options of config groups, of all of them if none is named."""
    with hydra():
        loader = _loader()
        known = [g for g in loader.get_group_options("", ObjectType.GROUP) if g != "hydra"]
        for group in groups:
            if group not in known:
                raise DimsweepError(f"no group {group!r}", hint=f"groups: {', '.join(known)}")
        return {
            group: [o for o in loader.get_group_options(group, ObjectType.CONFIG) if o != "none"]
            for group in groups or known
        }


class _Plugin(DefaultCompletionPlugin):
    def matches(self, line: str) -> list[str]:
        found: list[str] = self._query(ROOT, line)
        return found


def _loader() -> ConfigLoader:
    instance = GlobalHydra.instance().hydra
    assert instance is not None
    return instance.config_loader
