"""dimsweep completion: a script with which a shell completes commands, options and overrides."""

import click

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
complete -o nospace -o default -F _dimsweep dimsweep""",
    "zsh": """\
_dimsweep() { compadd -S '' -- ${(f)"$(dimsweep complete-words "$LBUFFER" 2>/dev/null)"} }
compdef _dimsweep dimsweep""",
    "fish": """\
complete -c dimsweep -f -a '(dimsweep complete-words (commandline -cp) 2>/dev/null)'""",
}


@click.command("completion")
@click.argument("shell", type=click.Choice(list(_SCRIPTS)), default="bash")
def command(shell: str) -> int:
    """Print a completion script for your shell.

    It completes commands, options, keys of the configuration, and the options of its groups.

    \b
    For this shell:   eval "$(dimsweep completion bash)"
    For every shell:  add that line to ~/.bashrc (zsh: ~/.zshrc with `completion zsh`)
    With fish:        dimsweep completion fish > ~/.config/fish/completions/dimsweep.fish
    """
    print(_SCRIPTS[shell])
    return 0
