"""Explain errors in a configuration.

Errors of Hydra and OmegaConf become :class:`DimsweepError`, with the file or the override that set
the key. For unknown names, hints suggest similar ones.
"""

import difflib
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import MissingMandatoryValue, OmegaConfBaseException

from dimsweep.engine import Code, DimsweepError, find_nearest, suggest_names
from dimsweep.engine.formats import GIVE
from dimsweep.engine.workload import AXES as PLAN_AXES
from dimsweep.sweeper.config.composition import compose_files, hash_files
from dimsweep.sweeper.config.options import read_options
from dimsweep.sweeper.config.overrides import AXES, SEARCHED, ConfigOverride, read_override
from dimsweep.sweeper.config.schema import Config
from dimsweep.sweeper.config.workload import KINDS
from dimsweep.sweeper.part import walk_keys
from dimsweep.sweeper.places import find_option, find_study, list_folders, list_groups

_INVALID: Code = "invalid"
_MAX_SUGGESTIONS = 3  # names that a hint suggests
_MIN_SIMILARITY = 0.7  # similarity from which a name may be meant
_SHORT_NAME = 3  # letters of a name that is similar to any other
# Names by which other tools know the size of a cluster.
_SIZES = {"npus", "gpus", "n_npus", "n_gpus", "num_npus", "num_gpus", "ranks", "world_size"}
_MISSING = re.compile(
    r"Could not find '(?:.*/)?(?P<name>[^/']*)'.*?Available options in "
    r"'(?P<group>[^']*)':(?P<options>.*?)(?:Config search path|$)",
    re.DOTALL,
)
_NO_GROUP = re.compile(r"In '(?P<file>[^']*)': Could not override '(?P<group>[^']*)'")
_NO_SLASH = re.compile(r"In '(?P<file>study/[^']*)': Could not find 'study/(?P<entry>[^']+)'")
_NO_KIND = re.compile(r"In '(?P<file>[^']*)': Could not (?:load|find) '[^']*kind/(?P<kind>[^']*)'")
# Names by which other tools know our keys: Megatron-LM, DeepSpeed, Hugging Face, vLLM, Slurm.
_ALIASES = {
    "workload": "model arch architecture",
    "npu": "gpu gpu_type accelerator device chip",
    "cluster": "machine server_type",
    "nodes": "node nnodes num_nodes n_nodes n_node servers hosts",
    "topology": "topo",
    "topology.bandwidth": "bw bandwidths link_bandwidth",
    "topology.latency": "lat latencies link_latency",
    "collective.algorithms": "algo algos algorithm",
    "collective.chunks": "chunk n_chunks num_chunks splits",
    "fidelity": "backend mode",
    "workload.parallel.tensor": "tp tp_size tensor_parallel tensor_parallel_size "
    "tensor_model_parallel_size",
    "workload.parallel.pipeline": "pp pp_size pipeline_parallel pipeline_parallel_size "
    "pipeline_model_parallel_size",
    "workload.parallel.data": "dp dp_size data_parallel data_parallel_size",
    "workload.parallel.expert": "ep ep_size expert_parallel expert_parallel_size "
    "expert_model_parallel_size",
    "workload.parallel.context": "cp cp_size context_parallel context_parallel_size",
    "workload.plan.batch": "bs gbs batch_size global_batch global_batch_size train_batch_size",
    "workload.plan.micro_batch": "mbs microbatch micro_batch_size train_micro_batch_size_per_gpu",
    "workload.plan.micro_batches": "ga gas gradient_accumulation_steps num_microbatches",
    "workload.plan.interleave": "vpp vp virtual_pipeline",
    "workload.plan.precision": "dtype precision data_type",
    "workload.plan.zero": "zero_stage",
    "workload.plan.recompute": "ac recompute_granularity activation_checkpointing",
    "workload.plan.sequence_parallel": "sp",
    "workload.model.sequence": "seq seqlen seq_len seq_length sequence_length context_length "
    "max_position_embeddings",
    "workload.model.layers": "n_layer n_layers num_layers num_hidden_layers",
    "workload.model.hidden": "d_model n_embd hidden_size",
    "workload.model.heads": "n_head n_heads num_heads num_attention_heads",
    "workload.model.kv_heads": "n_kv_heads num_key_value_heads num_query_groups",
    "workload.model.ffn": "d_ff ffn_hidden_size intermediate_size",
    "workload.model.vocabulary": "vocab vocab_size",
    "workload.model.experts": "n_experts num_experts",
    "workload.model.top_k": "topk moe_router_topk num_experts_per_tok",
}
ALIASES = {name: key for key, names in _ALIASES.items() for name in names.split()}


@dataclass(frozen=True)
class Origin:
    """The origin of a configuration: the overrides, and the option of each config group."""

    overrides: tuple[str, ...]
    choices: Mapping[str, str]
    varied: tuple[str, ...] = field(default=(), kw_only=True)  # dotted keys that a grid sets

    @property
    def study(self) -> str | None:
        """Name of the study, or None if no study was chosen."""
        study = self.choices.get("study", "none")
        return None if study == "none" else study

    @property
    def words(self) -> list[ConfigOverride]:
        """Overrides from which the configuration was composed, parsed."""
        return list(map(read_override, self.overrides))

    @property
    def overridden(self) -> list[str]:
        """Dotted keys that the overrides set."""
        return [word.key for word in self.words if not word.is_hydra_key]

    @property
    def set_in_study(self) -> list[str]:
        """The dotted keys that the study's file sets."""
        file = self.study and find_study(self.study)
        plain = OmegaConf.to_container(read_options(file).node) if file else {}
        return [key for key, each in walk_keys(plain) if not isinstance(each, dict) or not each]

    def given(self, key: str) -> Any:
        """Return the value of the last override that sets exactly ``key``, or None."""
        given = [word for word in self.words if word.key == key and word.is_setting]
        return given[-1].parsed.value() if given and not given[-1].is_sweep else None

    def add_source(self, error: DimsweepError) -> DimsweepError:
        """Return the error, with the file or override that set the key added to its place, once."""
        if not error.where or " (in " in error.where:
            return error
        return error.replace(where=f"{error.where} (in {self.source(error.where)})")

    @contextmanager
    def adding_sources(self) -> Iterator[None]:
        """Return a context that adds the file or override of the key to the place of errors."""
        try:
            yield
        except DimsweepError as error:
            raise self.add_source(error) from error.__cause__

    def source(self, key: str) -> str:
        """Return the file, the override or the axis of the grid that most likely set ``key``."""
        if any(re.match(rf"{re.escape(name)}(?![^.\[])", key) for name in self.varied):
            return "the grid"
        group = re.split(r"[.\[]", key, maxsplit=1)[0]
        named = {word.key: word.text for word in self.words if not word.is_choice}
        swept = [word for word in self.words if word.is_sweep]
        named |= {f"{at}.{each.key}": each.text for each in swept for at in (AXES, SEARCHED)}
        setting = [n for n in named if key == n or key.startswith(tuple(n + m for m in ".[ :"))]
        setting = setting or [n for n in named if n.startswith(f"{key}.")]
        if setting:
            return f"the override {named[max(setting, key=len)]!r}"
        study = self.study and find_study(self.study)
        if study and any(str(k).partition(".")[0] == group for k in read_options(study).node):
            return str(study)
        return str(find_option(group, str(self.choices.get(group))) or "the configuration")


@contextmanager
def explaining_errors(origin: Origin) -> Iterator[None]:
    """Return a context that turns errors of Hydra and OmegaConf into :class:`DimsweepError`."""
    try:
        yield
    except MissingMandatoryValue as error:
        missing = DimsweepError(
            "this key needs a value", where=str(error.full_key), hint=GIVE, code="missing"
        )
        raise origin.add_source(missing) from error
    except OmegaConfBaseException as error:
        raise origin.add_source(_explain(error)) from error
    except HydraException as error:
        raise _explain(error) from error
    except RecursionError as error:
        raise _recursion_error(origin) from error


def _recursion_error(origin: Origin) -> DimsweepError:
    names = [name for word in origin.words for name in word.studies]
    return DimsweepError(
        "its defaults have no end",
        where=", ".join(str(find_study(name) or name) for name in names),
        hint="a study, or a file that it names, includes itself or is nested too deeply",
        code="conflict",
    )


def _explain(error: Exception) -> DimsweepError:
    """Return a :class:`DimsweepError` for Hydra's error, naming its file or override and key."""
    if explained := _explain_missing(str(error)):
        return explained
    text, cause, where = str(error).strip(), error.__cause__, ""
    if " raised while composing config:" in text:  # In 'workload/x': SomeError raised while ...
        where, text = text.removeprefix("In '").split("': ", 1)
        where, text = (
            _find_option_file(where),
            text.split(" raised while composing config:", 1)[1].strip(),
        )
    first, _, rest = text.partition("\n")
    if cause is not None and str(cause).partition("\n")[0] not in text:
        first = f"{first.rstrip('.:')}: {cause}".partition("\n")[0]
    key = re.search(r"full_key: *(\S+)", f"{rest} {cause}")
    problem = re.sub(r"^\w+ raised while resolving interpolation: ", "", first).strip('"')
    hint, place, code = "", key[1] if key else "", _INVALID
    if "Cannot merge DictConfig with ListConfig" in problem:  # also for the opposite order
        is_list = "object_type=list" in f"{rest} {cause}"
        if not place and Path(where).is_file():
            place, is_list = _find_misplaced_in_file(where) or ("", False)
        problem, hint = "it is a list; it must be a mapping", "such as {KEY: VALUE}"
        code = "wrong-type"
        if is_list:
            problem, hint = "it is a mapping; it must be a list", "such as [{KEY: VALUE}]"
    where = ": ".join([where, place]).strip(": ")
    return DimsweepError(problem, where=where, hint=hint, code=code)


def _explain_missing(text: str) -> DimsweepError | None:
    """Return the error for Hydra's message on an unknown option, group or kind; else None."""
    code: Code = "unknown-name"
    if found := _NO_KIND.search(text):
        problem = f"unknown kind of workload {found['kind']!r}"
        hint = suggest_names(found["kind"], KINDS)
    elif found := _NO_GROUP.search(text):
        problem = f"unknown group {found['group']!r}"
        hint = suggest_names(found["group"], list_groups())
    elif found := _NO_SLASH.search(text):
        group, _, option = found["entry"].partition("/")
        problem = f"{group!r} needs a slash: it is not a group within studies"
        hint, code = f"write override /{group}: {option}", "bad-syntax"
    elif found := _MISSING.search(text):
        name, group = Path(found["name"]).stem, found["group"]
        problem = f"unknown {group} {found['name']!r}"
        hint = _suggest_options(name, group, found["options"])
        return DimsweepError(problem, where=f"{group}={found['name']}", hint=hint, code=code)
    else:
        return None
    where = f"{_find_option_file(found['file'])}: defaults"
    return DimsweepError(problem, where=where, hint=hint, code=code)


def _suggest_options(name: str, group: str, options: str) -> str:
    """Return a hint for an unknown option: a similar name, or options whose comments mention it."""
    names = options.split()
    close = find_nearest(name, names, _MIN_SIMILARITY)
    similar = [close] if close else list(_options_mentioning(name, group, names))
    if not similar:
        return suggest_names(name, names)
    proposed = " or ".join(map(repr, similar[:_MAX_SUGGESTIONS]))
    return f"did you mean {proposed}? known: {', '.join(names)}"


def _options_mentioning(word: str, group: str, names: list[str]) -> Iterator[str]:
    """Yield the options of a group whose comments contain a word that begins with ``word``."""
    if len(word) < 3:
        return
    mention = re.compile(rf"#.*\b{re.escape(word)}", re.IGNORECASE)
    for name in names:
        for file in (home / group / f"{name}.yaml" for home in list_folders("conf")):
            if file.is_file() and mention.search(file.read_text("utf-8", "replace")):
                yield name
                break


def _find_option_file(option: str) -> str:
    """Return the file of an option such as study/x; without a file, the option's name."""
    group, _, name = option.rpartition("/")
    study = find_study(name) if group == "study" else None
    return str(study or find_option(group, name) or option)


def _find_misplaced_in_file(file: str) -> tuple[str, bool] | None:
    """Return the first key of a file that is a list by mistake, or should be a list.

    The second value is whether a list is expected.
    """
    known = compose_files((), hash_files(())).node()
    given, plain = (OmegaConf.to_container(each) for each in (OmegaConf.load(file), known))
    return _find_misplaced(given, plain)


def _find_misplaced(given: Any, known: Any, place: str = "") -> tuple[str, bool] | None:
    """Return the first key that is a list in only one of ``given`` and ``known``, or None.

    The second value is whether ``known`` has the list.
    """
    if {type(given), type(known)} == {dict, list}:
        return place, isinstance(known, list)
    if not isinstance(given, dict) or not isinstance(known, dict):
        return None
    below = (
        _find_misplaced(each, known.get(key), f"{place}.{key}".strip("."))
        for key, each in given.items()
    )
    return next(filter(None, below), None)


def suggest_override(word: str) -> str:
    """Return a suggestion for a word that is not KEY=VALUE: a similar option, or that form."""
    known = list_groups()
    options = {name: f"{group}={name}" for group in reversed(known) for name in known[group]}
    options |= {name: f"study={name}" for name in known["study"]}
    if close := difflib.get_close_matches(word, options, n=1, cutoff=0.8):
        return options[close[0]]
    begins = [name for name in sorted(options) if name.startswith(word.lower())]
    return options[begins[0]] if len(word) > 2 and begins else "KEY=VALUE"


def _has_key(plain: Any, key: str) -> bool:
    """Return whether a configuration has a key, or a parallel plan with an axis of this name."""
    part, _, name = key.rpartition(".")
    if not part:
        return key in Config.model_fields or key in list_groups()
    if part == "workload.parallel" and plain.get("workload", {}).get("kind") == "model":
        return name in PLAN_AXES
    return any(key == each or each.startswith(f"{key}.") for each, _ in walk_keys(plain))


def refuse_unknown_key(name: str, node: DictConfig | Mapping[str, Any]) -> None:
    """Raise :class:`DimsweepError` for an unknown dotted key.

    The hint suggests keys with the same last name.
    """
    first, known = name.split(".")[0], list(Config.model_fields)
    if first in known:
        return
    plain = OmegaConf.to_container(node) if isinstance(node, DictConfig) else node
    keys = [key for key, _ in walk_keys(plain)]
    meant = [
        key for key in [ALIASES.get(name.lower().replace("-", "_"), "")] if _has_key(plain, key)
    ]
    meant = meant or [key for key in keys if key.endswith(f".{name}")]
    if not meant and find_nearest(first, known):
        hint = suggest_names(first, known)
        raise DimsweepError("unknown key", where=first, hint=hint, code="unknown-key")
    if not meant and len(name) > _SHORT_NAME:
        last = {key.rsplit(".", 1)[-1]: key for key in reversed(keys)}
        close = difflib.get_close_matches(
            name.rsplit(".", 1)[-1], last, n=1, cutoff=_MIN_SIMILARITY
        )
        meant = [last[end] for end in close]
    advice = f"did you mean {' or '.join(map(repr, meant[:_MAX_SUGGESTIONS]))}? " if meant else ""
    if first.lower() in _SIZES:
        advice = "give the size in topology.shape, or nodes= with cluster=; "
    hint = f"{advice}known: {', '.join(Config.model_fields)}"
    raise DimsweepError("unknown key", where=name, hint=hint, code="unknown-key")
