"""Synthetic traces: models learnt from traces, traces of other jobs, and obfuscated traces."""

OFFERS = {
    "command": {
        "trace learn": "commands:learn_command",
        "trace synthesise": "commands:synthesise_command",
        "trace obfuscate": "commands:obfuscate_command",
    }
}
