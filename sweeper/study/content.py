"""The inputs of a trial's result, and the keys of rows, which are hashes of them."""

import hashlib
from typing import Any

import numpy as np

from dimsweep.engine import MODEL_VERSION
from dimsweep.sweeper.config.schema import Config, Design
from dimsweep.sweeper.part import canonical_text
from dimsweep.sweeper.places import list_files
from dimsweep.sweeper.plugins import plugin_digests
from dimsweep.sweeper.space.trials import Trials


class Content:
    """The inputs that all trials of a configuration share.

    They are ``config``, the keys that results depend on, the contents of files, and the version of
    the model. ``text`` is a hash of them.
    """

    def __init__(self, config: Config) -> None:
        self.config: dict[str, Any] = {name: config.text[name] for name in Design.model_fields}
        parts = [MODEL_VERSION, self.config, input_digests(config)]
        self._hash = hashlib.blake2b(canonical_text(parts).encode(), digest_size=16)
        self.text = self._hash.hexdigest()

    def keys(self, trials: Trials) -> list[str]:
        """Return each trial's key: a hash of everything that determines its result."""
        split = np.empty((len(trials), 0)) if trials.bandwidth is None else trials.bandwidth
        width, data = 8 * split.shape[1], split.astype("<f8").tobytes()
        texts = [own.text.encode() if own else b"" for own in trials.settings]
        keys = []
        for i, setting in enumerate(trials.setting.tolist()):
            digest = self._hash.copy()
            digest.update(data[i * width : (i + 1) * width] + texts[setting])
            keys.append(digest.hexdigest())
        return keys


def input_digests(config: Config) -> dict[str, str]:
    """Return hashes of the files and plug-ins of a configuration, by key.

    If a hash changes, trials have new keys and are simulated again.
    """
    digests = {}
    for name, file_name in config.files().items():
        content = hashlib.blake2b(digest_size=16)
        for file in list_files(file_name):
            content.update(file.read_bytes())
        digests[name] = content.hexdigest()
    return digests | plugin_digests(config.plugins)
