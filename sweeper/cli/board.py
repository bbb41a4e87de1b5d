"""dimsweep board: all studies on one live page."""

import click


@click.command("board")
@click.argument("results", default="results", type=click.Path(exists=True, file_okay=False))
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    metavar="N",
    default=8050,
    show_default=True,
    help="The port of this machine; 0: any.",
)
@click.option("--open/--no-open", "opens", default=True, help="Open it in a browser.")
def command(results: str, port: int, opens: bool) -> int:
    """Show all studies of a results folder on one page, live while they run.

    The page shows the progress of each study, its best so far and the gap to the proven bound,
    failures, actors, and a link to its report; studies that are ticked are compared. It is served
    to this machine alone (127.0.0.1, localhost), whatever else a browser calls it, until the
    command is stopped.

    \b
    Examples:
      dimsweep board
      dimsweep board results --port 8051 --no-open
    """
    from dimsweep.sweeper.board.board import LOOPBACK, make_server
    from dimsweep.sweeper.ledger.place import place

    server = make_server(place(results), port)
    click.echo(f"the board of {results} is at http://{LOOPBACK}:{server.port}/ (Ctrl+C stops it)")
    if opens:
        server.show("/")
    try:
        server.io_loop.start()
    except KeyboardInterrupt:
        server.stop()
    return 0
