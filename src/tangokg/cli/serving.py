"""Shared parts of ``tango serve`` and ``tango demo --serve``: the extra, a free port, and a browser."""

from __future__ import annotations

import os
import sys
import webbrowser
from importlib.util import find_spec
from pathlib import Path

from tangokg.cli.output import Output
from tangokg.errors import ConfigError

HOST, PORT = "127.0.0.1", 8765

NEEDED = ("fastapi", "uvicorn", "plotly", "limits", "prometheus_client", "prometheus_fastapi_instrumentator")


def check_extra() -> None:
    """Raise an error if a package of the extra ``serve`` is missing."""
    for name in NEEDED:
        if find_spec(name) is None:
            raise ConfigError(
                f"serving a run needs the extra 'serve' ({name} is missing): pip install 'tangokg[serve]', "
                f"in a clone pip install '.[serve]'."
            )


def share_cores() -> None:
    """Half of the cores for one forecast: others take posts, find reasons, and speak HTTP at the same time."""
    import torch

    if "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(max(1, torch.get_num_threads() // 2))


def open_page(output: Output, run: Path, kept: bool) -> None:
    """Serve a run on this machine, and show its page, until Ctrl-C."""
    from tangokg import __version__
    from tangokg.serve.running import free_port, serve
    from tangokg.serve.settings import ServeSettings

    def tell(url: str) -> None:
        output.say()
        output.say(f"Ask it at {url} - stop with Ctrl-C.{'' if kept else ' The run goes then; keep one with --out.'}")
        open_browser(url)

    settings = ServeSettings(host=HOST, port=free_port(HOST, PORT), version=__version__)
    serve(run, settings, tell=tell, processes=None)


def open_browser(url: str) -> None:
    """Open the page in a browser, on a desktop only: a text browser would take over the terminal."""
    desktop = os.name == "nt" or sys.platform == "darwin" or any(map(os.environ.get, ("DISPLAY", "WAYLAND_DISPLAY")))
    if desktop and sys.stdout.isatty():
        webbrowser.open(url)
