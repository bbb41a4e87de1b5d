"""The command dimsweep completion: print a script for completion in a shell."""

import click
from click.shell_completion import ShellComplete, split_arg_string

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
_dimsweep() {
    local found=(${(f)"$(dimsweep complete-words "$LBUFFER" 2>/dev/null)"})
    # What ends with a space is complete, and zsh itself adds the space.
    compadd -S '' -- "${(@)found:#*[[:space:]]}"
    compadd -- "${(@)${(@M)found:#*[[:space:]]}%[[:space:]]}"
    (( $#found )) || _files
}
compdef _dimsweep dimsweep""",
    "fish": """\
function __dimsweep
    # What ends with a space is complete, and fish itself adds the space.
    set -l found (dimsweep complete-words (commandline -cp) 2>/dev/null | string trim)
    if set -q found[1]
        printf '%s\\n' $found
    else
        __fish_complete_path (commandline -ct)
    end
end
complete -c dimsweep -f -a '(__dimsweep)'""",
}


@click.command("completion")
@click.argument("shell", type=click.Choice(list(_SCRIPTS)), default="bash")
def completion_command(shell: str) -> int:
    """Print a completion script for your shell.

    It completes commands, options, keys of the configuration, and the options of its groups.

    \b
    For this shell:   eval "$(dimsweep completion bash)"
    For every shell:  add that line to ~/.bashrc (zsh: ~/.zshrc with `completion zsh`)
    With fish:        dimsweep completion fish > ~/.config/fish/completions/dimsweep.fish
    """
    print(_SCRIPTS[shell])
    return 0


@click.command("complete-words")
@click.argument("line")
@click.pass_context
def complete_words_command(context: click.Context, line: str) -> int:
    """Print what the last word of a command line, such as `dimsweep sweep study=`, may become.

    A space after it says that the word is complete.
    """
    words = split_arg_string(line)[1:]
    incomplete = words.pop() if words and not line.endswith(" ") else ""
    shell = ShellComplete(context.find_root().command, {}, "dimsweep", "")
    for item in shell.get_completions(words, incomplete):
        if item.type == "plain":  # the shell itself completes files
            print(item.value if item.goes_on else f"{item.value} ")
    return 0
