"""``python -m tangokg.tune.proxy ADDRESS``: one process in front of a database, which all workers then share.

It keeps the number of connections to the database small, and the password in one place.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Sequence

from tangokg.errors import ConfigError, RunError, TangoError
from tangokg.quads.addresses import without_passwords
from tangokg.tune.sampling import load_optuna
from tangokg.tune.storage import PORT, open_storage, parse_storage


def main(words: Sequence[str] | None = None) -> int:
    """Serve until the process is ended; 2 for an address that cannot be used."""
    parser = argparse.ArgumentParser("python -m tangokg.tune.proxy", description=__doc__)
    parser.add_argument("storage", metavar="ADDRESS", help="postgresql://user@host/database")
    parser.add_argument("--host", default="127.0.0.1", help="where to listen; 0.0.0.0 for other machines")
    parser.add_argument("--port", type=int, default=PORT, help=f"default {PORT}")
    try:
        options = parser.parse_args(without_passwords(sys.argv[1:] if words is None else words))
        serve(options.storage, options.host, options.port)
    except TangoError as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    return 0


def serve(storage: str, host: str = "127.0.0.1", port: int = PORT) -> None:
    """Answer workers whose ``--storage`` is ``grpc://host:port``, until the process is ended."""
    address = parse_storage(storage)
    if address.kind == "grpc":
        raise ConfigError(f"{address}: a proxy stands in front of a database, not of another proxy.")
    backend = open_storage(address)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Optuna calls it experimental
        try:
            load_optuna().storages.run_grpc_proxy_server(backend, host=host, port=port)
        except RuntimeError as error:  # gRPC's, which has no class of its own
            raise RunError(f"{host}:{port}: cannot listen there ({error}). Choose another --port.") from None


if __name__ == "__main__":
    sys.exit(main())
