"""dimsweep complete-words: what the scripts of ``dimsweep completion`` ask."""

import click
from click.shell_completion import ShellComplete, split_arg_string


@click.command("complete-words")
@click.argument("line")
@click.pass_context
def command(context: click.Context, line: str) -> int:
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
