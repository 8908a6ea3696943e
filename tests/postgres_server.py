"""A PostgreSQL server of this machine, started for the tests; passwords are checked for one of its users."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

USER, PASSWORD = "reader", "p@ss/wörd 1?#&%"  # all that has a meaning in an address


def missing(what: str) -> None:
    """A skip with its reason; where everything must be there, a failure."""
    if os.environ.get("CI") == "true":
        pytest.fail(f"{what} is missing, and CI is true: the tests of PostgreSQL must run.")
    pytest.skip(f"{what} is not installed: PostgreSQL is not tested.")


def _pg_ctl() -> Path:
    """Debian keeps it out of the path."""
    found = [*sorted(Path("/usr/lib/postgresql").glob("*/bin/pg_ctl"), reverse=True), shutil.which("pg_ctl")]
    path = next((path for path in found if path), None)
    if path is None:
        missing("PostgreSQL (pg_ctl)")
    return Path(str(path))


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def _first_connection(port: int) -> Any:
    """Of the superuser; a server that has just been started may need a while."""
    import psycopg

    for seconds in (0.1, 0.3, 1, 3, 9, 27, 0):
        try:
            return psycopg.connect(host="127.0.0.1", port=port, user="postgres", autocommit=True)
        except psycopg.OperationalError:
            if not seconds:
                raise
            time.sleep(seconds)


@pytest.fixture(scope="module")
def postgres() -> Iterator[str]:
    """The address of a server's database, for its superuser, who needs no password; USER needs PASSWORD."""
    try:
        import psycopg  # noqa: F401
        from pytest_postgresql.executors import PostgreSQLExecutor
    except ImportError as error:
        missing(f"the Python package {error.name}")
    program, folder = _pg_ctl(), Path(tempfile.mkdtemp(prefix="tangokg-postgres-"))
    if os.geteuid() == 0:  # a server does not run as root
        shutil.chown(folder, "postgres")
        (wrapper := folder / "pg_ctl").write_text(f'#!/bin/sh\nexec runuser -u postgres -- {program} "$@"\n')
        wrapper.chmod(0o755)
        program = wrapper
    data, port = folder / "data", _free_port()
    server = PostgreSQLExecutor(
        str(program), "127.0.0.1", port, str(data), str(folder), str(folder / "log"), "-w", "postgres"
    )
    try:
        server.start()
        rules = data / "pg_hba.conf"
        lines = f"host all {USER} 127.0.0.1/32 scram-sha-256\nhost all postgres 127.0.0.1/32 trust\n"
        rules.write_text(lines)
        with _first_connection(port) as connection:
            secret = PASSWORD.replace("'", "''")
            connection.execute(f"create role {USER} login password '{secret}'".encode())
            connection.execute("create database events")
            connection.execute(f"grant all on database events to {USER}".encode())
            connection.execute("select pg_reload_conf()")
        yield f"postgresql://postgres@127.0.0.1:{port}/events"
    finally:
        subprocess.run([program, "stop", "-D", data, "-m", "immediate"], capture_output=True, check=False)
        shutil.rmtree(folder, ignore_errors=True)


def with_password(address: str, password: str = PASSWORD) -> str:
    """The address for USER, with a password as it is written in one."""
    return address.replace("postgres@", f"{USER}:{quote(password, safe='')}@", 1)
