"""Storage of a study for workers on several machines: PostgreSQL, or a proxy in front of it."""

from __future__ import annotations

import re
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tangokg.errors import ConfigError, RunError, TangoError
from tangokg.quads.addresses import Address, parse_address
from tangokg.tune.sampling import load_optuna

EXPECTED = "expected postgresql://user@host/database, or grpc://host:port of a proxy"
BEAT = 10.0  # seconds between two signs of life of a trial
READY = 10.0  # seconds to wait for a proxy
TRIES = 6  # several first workers make the tables of a new database at the same time
PORT = 13000


class TrialLost(Exception):
    """Another worker has taken over this trial, because this worker sent no heartbeat."""


@dataclass(frozen=True)
class Shared:
    """A study by its name, in a storage that many machines reach."""

    name: str
    address: Address
    beat: float = BEAT

    def __str__(self) -> str:
        return f"{self.name} in {self.address}"

    def open(self) -> Any:
        """Optuna's storage."""
        return open_storage(self.address)


def parse_storage(text: str) -> Address:
    """The address of a storage, with the removed secrets restored."""
    scheme = text.partition("://")[0].casefold() if "://" in text else ""
    if scheme == "grpc":
        if not re.fullmatch(r"grpc://(\[[0-9a-fA-F:]+\]|[\w.-]+)(:\d+)?/?", text, re.IGNORECASE):
            raise ConfigError("--storage grpc://...: expected grpc://host:port, without user, password or path.")
        return Address("grpc", text.rstrip("/"))
    if scheme not in ("postgresql", "postgres"):
        raise ConfigError(f"--storage {scheme + '://' if scheme else ''}...: {EXPECTED}.")
    address = parse_address(text)
    if address.table or address.query:
        raise ConfigError(f"--storage {address}: a storage has no table and no query; {EXPECTED}.")
    return address


def open_storage(address: Address) -> Any:
    """Connect, and create missing tables."""
    optuna = load_optuna()
    with reaching(address), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the proxy is called experimental
        if address.kind == "grpc":
            host, port = _host_and_port(address)
            storage = optuna.storages.GrpcStorageProxy(host=host, port=port)
            storage.wait_server_ready(READY)
            return storage
        return optuna.storages.get_storage(_open_database(address))


def _host_and_port(address: Address) -> tuple[str, int]:
    host, port = re.fullmatch(r"grpc://(.*?)(?::(\d+))?", address.place, re.IGNORECASE).groups()  # type: ignore[union-attr]
    return host, int(port or PORT)


def _open_database(address: Address) -> Any:
    """Optuna's database storage. Secrets go only to the driver, so that no URL contains them."""
    import psycopg  # noqa: F401  an error that names it, before SQLAlchemy's
    from sqlalchemy.engine import make_url
    from sqlalchemy.exc import IntegrityError, ProgrammingError

    url = make_url("postgresql+psycopg://" + address.place.partition("://")[2]).update_query_dict(address.options)
    secrets = {name or "password": value for name, value in address.secrets.items()}
    options = {"connect_args": secrets, "pool_pre_ping": True}
    for tries in range(1, TRIES + 1):
        try:
            return load_optuna().storages.RDBStorage(url.render_as_string(hide_password=False), engine_kwargs=options)
        except (IntegrityError, ProgrammingError):  # another worker has just made the same table
            if tries == TRIES:
                raise
            time.sleep(0.2 * tries)
    raise AssertionError


@contextmanager
def reaching(address: Address) -> Iterator[None]:
    """Convert errors of the storage to ours, without passwords; a trial ended elsewhere raises :class:`TrialLost`."""
    optuna = load_optuna()
    try:
        yield
    except optuna.exceptions.UpdateFinishedTrialError:
        raise TrialLost from None
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"--storage {address} needs the extra 'cluster' ({error.name} is missing): pip install 'tangokg[cluster]'."
        ) from None
    except TangoError:
        raise
    except Exception as error:
        if not _is_of_storage(error):
            raise
        raise _unreachable(address, error) from None


def _is_of_storage(error: BaseException) -> bool:
    """Whether Optuna, SQLAlchemy, the driver or gRPC raised it: each has its own classes."""
    names = {kind.__module__.partition(".")[0] for kind in type(error).__mro__}
    return isinstance(error, ConnectionError) or bool(names & {"optuna", "sqlalchemy", "psycopg", "grpc"})


def _unreachable(address: Address, error: BaseException) -> RunError:
    while error.__cause__ is not None and not isinstance(error, ConnectionError):  # Optuna's own says little
        error = error.__cause__
    text = error.details() if hasattr(error, "details") else str(error)  # of gRPC, whose text has many lines
    message = address.hide((text or type(error).__name__).partition("\n[SQL")[0]).rstrip(".")
    hint = " A password can be given by PGPASSWORD, by ~/.pgpass, or in the address." if "password" in message else ""
    return RunError(f"{address}: the storage of the study cannot be used ({message:.300}).{hint}")
