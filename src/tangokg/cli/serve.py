"""``tango serve``: questions to a run, and new facts for it, over HTTP and on a page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from tangokg.cli.options import Device, Run, parse_device
from tangokg.cli.output import Output
from tangokg.cli.serving import HOST, PORT, check_extra, share_cores

Host = Annotated[str, typer.Option(help="Address to listen on; others than this machine's own need a token.")]
Port = Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on.")]
TokenFile = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Tokens, one a line: read TOKEN or write TOKEN.", show_default=False)
]
AllowHost = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME", help="A host name of the service, as a proxy passes it on. Can be repeated."),
]
Proxy = Annotated[str, typer.Option(metavar="ADDRESS", help="A reverse proxy whose X-Forwarded headers are believed.")]
JournalFile = Annotated[
    Path | None,
    typer.Option("--journal", metavar="FILE", help="Where new facts are kept; else in the run folder."),
]
Beside = Annotated[
    Path | None,
    typer.Option(metavar="RUN", help="A second run, to compare its answers; it is only read.", show_default=False),
]
Late = Annotated[float, typer.Option(min=0, help="Take facts up to so many steps before the last one.")]
Ahead = Annotated[float, typer.Option(min=0, help="Take facts up to so many steps after the last one.")]
Rate = Annotated[str, typer.Option(metavar="N/TIME", help="Requests of one address, such as 600/minute.")]
InFlight = Annotated[int, typer.Option(min=1, help="Requests answered at once; more are told to come again.")]
Processes = Annotated[
    int | None,
    typer.Option(
        min=0,
        max=64,
        help="Processes that answer questions in addition to the HTTP process, on the CPU, each with its own copy of "
        "the run; by default 2 on a CPU with several cores, else 0.",
        show_default=False,
    ),
]
Compact = Annotated[bool, typer.Option("--compact", help="Write the journal's facts into the run folder, and end.")]


def serve(
    ctx: typer.Context,
    run: Run,
    host: Host = HOST,
    port: Port = PORT,
    token_file: TokenFile = None,
    allow_host: AllowHost = None,
    proxy: Proxy = "",
    journal: JournalFile = None,
    beside: Beside = None,
    late: Late = 30.0,
    ahead: Ahead = 3650.0,
    rate: Rate = "6000/minute",
    in_flight: InFlight = 64,
    processes: Processes = None,
    compact: Compact = False,
    device: Device = None,
) -> None:
    """Answer questions and take new facts over HTTP, with a page for people."""
    output: Output = ctx.obj
    place = parse_device(device)
    check_extra()
    from tangokg import __version__
    from tangokg.serve.compacting import compact as fold
    from tangokg.serve.running import journal_of
    from tangokg.serve.running import serve as start
    from tangokg.serve.settings import ServeSettings, read_tokens

    if compact:
        position = fold(run, journal_of(run, journal))
        output.say(f"{run} holds the facts of the journal up to position {position}.")
        return
    limits: dict[str, Any] = {
        "late": late,
        "ahead": ahead,
        "rate": rate,
        "in_flight": in_flight,
        "version": __version__,
    }
    tokens, hosts = read_tokens(token_file), tuple(allow_host or ())
    settings = ServeSettings(host=host, port=port, tokens=tokens, hosts=hosts, proxy=proxy, **limits)
    share_cores()
    served = f"{run} and {beside}" if beside else str(run)

    def tell(url: str) -> None:
        output.say(f"Serving {served} at {url} - stop with Ctrl-C.")

    start(run, settings, journal, place, tell, beside, processes)
