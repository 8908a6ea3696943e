"""Serving a run folder until it is stopped."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import FrameType

import uvicorn

from tangokg.errors import ConfigError
from tangokg.forecast import load
from tangokg.serve.app import create_app
from tangokg.serve.compacting import FILE
from tangokg.serve.process import AnsweringProcess, default_processes
from tangokg.serve.service import Service
from tangokg.serve.settings import ServeSettings
from tangokg.train.devices import device_of
from tangokg.train.replacing import owning_existing

CONNECTIONS = 1000  # at once, listeners included


def journal_of(run: Path, journal: Path | None) -> Path:
    """Where the journal of a run is kept."""
    return run / FILE if journal is None else journal


def serve(
    run: Path,
    settings: ServeSettings,
    journal: Path | None = None,
    device: str = "auto",
    tell: Callable[[str], None] = lambda url: None,
    beside: Path | None = None,
    processes: int | None = 0,
) -> None:
    """Answer until the process is told to stop (Ctrl-C, SIGTERM); the run folder is ours until then.

    ``tell`` is given the address when it answers. ``beside`` is a second run to compare with, which is only read.
    ``processes`` answer questions in addition to this one (None: by rule). They import the main module of the program,
    which must therefore be guarded by ``if __name__ == "__main__":``.
    """
    with owning_existing(run), _bound(settings) as listener:
        second = None if beside is None else (load(beside, device), beside)
        forecaster, path = load(run, device), journal_of(run, journal)
        if processes is None:
            processes = default_processes(device_of(forecaster.model))
        answering = [AnsweringProcess(run, path, settings.span) for _ in range(processes)]
        service = Service(forecaster, settings, run, path, second, answering)
        logging.getLogger("tangokg").setLevel(logging.ERROR)  # warnings go to those who ask
        config = uvicorn.Config(
            create_app(service),
            workers=1,
            ws="none",
            log_level="warning",
            server_header=False,
            proxy_headers=bool(settings.proxy),
            forwarded_allow_ips=settings.proxy or None,
            timeout_graceful_shutdown=5,
            limit_concurrency=CONNECTIONS,
        )
        host = f"[{settings.host}]" if ":" in settings.host else settings.host
        url = f"http://{host}:{listener.getsockname()[1]}/"
        try:
            with suppress(KeyboardInterrupt):  # Ctrl-C is how it is stopped; raised again after all has ended
                _Server(config, service, lambda: tell(url)).run([listener])
        finally:
            for process in answering:  # a second Ctrl-C skips what ends the service
                process.stop()


def _bound(settings: ServeSettings) -> socket.socket:
    """A socket bound to the address, so that an address in use is reported before anything is loaded."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    # asyncio sends at once only where the protocol is named; else each answer waits for an ACK, delayed by 40 ms
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    if os.name == "posix":
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((settings.host, settings.port))
    except OSError as error:
        listener.close()
        raise ConfigError(
            f"cannot listen on {settings.host} port {settings.port}: {error.strerror or error}. "
            f"Take another --port or --host."
        ) from None
    return listener


def free_port(host: str, port: int) -> int:
    """This port, or where it is taken, 0: any other."""
    try:
        _bound(ServeSettings(host=host, port=port)).close()
    except ConfigError:
        return 0
    return port


class _Server(uvicorn.Server):
    """Calls ``tell`` when it listens, and ends the event streams at shutdown, which would wait for them otherwise."""

    def __init__(self, config: uvicorn.Config, service: Service, tell: Callable[[], None]) -> None:
        super().__init__(config)
        self._service, self._tell = service, tell

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if not self.should_exit:
            self._tell()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self._service.hub.close()
        super().handle_exit(sig, frame)
