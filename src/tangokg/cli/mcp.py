"""``tango mcp``: a service for assistants, over standard input and output."""

from __future__ import annotations

from typing import Annotated

import typer

from tangokg.cli.serve import TokenFile
from tangokg.errors import ConfigError


def mcp(
    url: Annotated[str, typer.Argument(metavar="URL", help="The address of a service: see `tango serve`.")],
    token_file: TokenFile = None,
) -> None:
    """Let an assistant ask a service (Model Context Protocol): names, forecasts, facts and reasons."""
    try:
        from tangokg.serve.mcp import make_server
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"`tango mcp` needs the extra 'mcp' ({error.name} is missing): pip install 'tangokg[mcp]'."
        ) from None
    from tangokg import __version__
    from tangokg.serve.tokens import read_tokens

    tokens = read_tokens(token_file)
    make_server(url, next(iter([*tokens.read, *tokens.write]), ""), __version__).run()
