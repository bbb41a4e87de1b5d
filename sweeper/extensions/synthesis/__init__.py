"""Synthetic traces: models learnt from traces, traces of other jobs, and obfuscated traces."""

OFFERS = {
    "command": {
        "trace learn": "learn:command",
        "trace synthesise": "synthesise:command",
        "trace obfuscate": "obfuscate:command",
    }
}
