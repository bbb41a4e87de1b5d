"""Synthetic traces: learn models from traces, generate traces of other jobs, obfuscate traces."""

OFFERS = {
    "command": {
        "trace learn": "commands:learn_command",
        "trace synthesise": "commands:synthesise_command",
        "trace obfuscate": "commands:obfuscate_command",
    }
}
