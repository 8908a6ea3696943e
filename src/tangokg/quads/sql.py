"""Tables and queries of PostgreSQL and SQLite, through ADBC, and of DuckDB: read in batches, and written whole."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa

from tangokg.errors import DataError, TangoError
from tangokg.quads.addresses import EXAMPLES, KINDS, Address, is_address, parse_address
from tangokg.quads.files import Source
from tangokg.quads.streams import Stream

DRIVERS = {
    "postgresql": "adbc_driver_postgresql.dbapi",
    "sqlite": "adbc_driver_sqlite.dbapi",
    "duckdb": "duckdb",
}
BATCHES = {"sqlite": {"adbc.sqlite.query.batch_rows": str(2**16)}}  # its first batch also says what types columns have
MODES = {"fail": "create", "append": "create_append", "replace": "replace"}


def open_database(source: str | Address, query: str | None = None) -> Source:
    """The rows of a table or query; only the headings are read until the columns are chosen."""
    address = source if isinstance(source, Address) else parse_address(source)
    statement = _statement(address, query)
    with ExitStack() as stack:
        connection = stack.enter_context(_connected(address, read_only=True))
        try:
            reader = _execute(connection, address, statement, stack)
        except Exception as error:  # each driver has its own
            raise _failed(address, error) from None
        stream = Stream(reader, lambda error: _failed(address, error), stack.pop_all())
    return Source(stream.heading, str(address), stream=stream)


def check_sink(text: str) -> Address:
    """The address of a table to write, before anything is computed: it must not exist, unless the address says so."""
    address = parse_address(text)
    if address.table is None:
        raise DataError(f"{address}: name the table to write, such as sqlite:///answers.db?table=answers.")
    if address.kind != "postgresql" and not address.path:
        raise DataError(f"{address}: a database in memory is lost at once; name a file.")
    if address.kind == "postgresql" or os.path.exists(address.path):
        with _connected(address, read_only=True) as connection:
            _check_table(connection, address, None)
    else:
        _driver(address)
    return address


def write_table(table: pa.Table, to: str | Address) -> None:
    """Write an Arrow table to a table of a database, completely or not at all.

    The address names the table: ``sqlite:///answers.db?table=answers``. One that exists is an error, unless the
    address also says ``if_exists=append`` or ``if_exists=replace``.
    """
    address = to if isinstance(to, Address) else check_sink(to)
    if address.kind != "postgresql" and not os.path.isdir(os.path.dirname(address.path) or "."):
        raise DataError(f"{address}: there is no such folder to write the database to.")
    with _connected(address, read_only=False) as connection:
        _check_table(connection, address, table.column_names)
        try:
            if address.kind == "duckdb":
                _write_duckdb(connection, address, table)
            else:
                schema, _, name = (address.table or "").rpartition(".")
                with connection.cursor() as cursor:
                    cursor.adbc_ingest(
                        name, table, MODES[address.if_exists], **({"db_schema_name": schema} if schema else {})
                    )
                connection.commit()
        except Exception as error:  # each driver has its own
            raise _failed(address, error, "the table cannot be written") from None


def _write_duckdb(connection: Any, address: Address, table: pa.Table) -> None:
    name = _quoted(address.table or "")
    replacing = "or replace " if address.if_exists == "replace" else ""
    connection.register("tangokg_rows", table)
    connection.begin()
    if address.if_exists == "append" and _columns(connection, address) is not None:
        connection.execute(f"insert into {name} by name select * from tangokg_rows")
    else:
        connection.execute(f"create {replacing}table {name} as select * from tangokg_rows")
    connection.commit()


def _statement(address: Address, query: str | None) -> str:
    if query is not None and (address.query or address.table):
        raise DataError(f"{address}: the address has a table or a query already; give one of them.")
    if query is not None and not query.strip():
        raise DataError(f"{address}: the query is empty.")
    if query or address.query:
        return str(query or address.query).rstrip().removesuffix(";")
    if not address.table:
        raise DataError(f"{address}: say which rows, with a table or a query: {EXAMPLES}.")
    return f"select * from {_quoted(address.table)}"


def _quoted(table: str) -> str:
    """A table as SQL names it; a dot separates it from its schema."""
    return ".".join('"' + piece.replace('"', '""') + '"' for piece in table.split("."))


def _execute(connection: Any, address: Address, statement: str, stack: ExitStack) -> pa.RecordBatchReader:
    if address.kind == "duckdb":
        relation = connection.sql(statement)  # which streams; the result of execute() is collected first
        return pa.RecordBatchReader.from_stream(relation)
    cursor = stack.enter_context(connection.cursor())
    cursor.adbc_statement.set_options(**BATCHES.get(address.kind, {}))
    cursor.execute(statement)
    return cursor.fetch_record_batch()


@contextmanager
def _connected(address: Address, read_only: bool) -> Iterator[Any]:
    """A connection that is closed at the end; uncommitted changes are lost."""
    driver = _driver(address)
    if read_only and address.kind != "postgresql" and address.path and not os.path.isfile(address.path):
        raise DataError(f"{address}: there is no such database file.")
    try:
        if address.kind == "postgresql":
            connection = driver.connect(address.url)
        elif address.kind == "sqlite":
            if not address.path or address.options:
                raise ValueError(f"expected a file, and no parameters; found {address.place} {[*address.options]}")
            connection = driver.connect(f"file:{quote(address.path)}?mode={'ro' if read_only else 'rwc'}")
        else:
            config = {**address.options, **address.secrets}
            connection = driver.connect(address.path or ":memory:", read_only and bool(address.path), config)
            connection.execute("set enable_progress_bar = false")  # it goes to standard output
    except Exception as error:  # each driver has its own
        raise _failed(address, error, "cannot be opened") from None
    with closing(connection):
        yield connection


def _driver(address: Address) -> Any:
    try:
        return import_module(DRIVERS[address.kind])
    except ModuleNotFoundError as error:
        raise DataError(
            f"{address.kind} databases need the extra 'sql' ({error.name} is missing): pip install 'tangokg[sql]'."
        ) from None


def _columns(connection: Any, address: Address) -> list[str] | None:
    """The columns of the table of an address; None: it does not exist, or cannot be read."""
    statement = f"select * from {_quoted(address.table or '')} limit 0"
    try:
        if address.kind == "duckdb":
            return list(connection.sql(statement).columns)
        with connection.cursor() as cursor:
            cursor.execute(statement)
            return list(cursor.fetch_arrow_table().column_names)
    except Exception:  # each driver has its own
        if address.kind != "duckdb":
            connection.rollback()
        return None


def _check_table(connection: Any, address: Address, columns: list[str] | None) -> None:
    """Raise an error if the table to create exists, or if these columns cannot be appended to it."""
    if address.if_exists == "replace" or (existing := _columns(connection, address)) is None:
        return
    if address.if_exists == "fail":
        raise DataError(
            f"{address}: the table {address.table!r} exists. Add to the address &if_exists=append or "
            f"&if_exists=replace, or name another table."
        )
    if missing := [name for name in columns or () if name not in existing]:
        raise DataError(
            f"{address}: the table {address.table!r} has no column {', '.join(missing)}, so rows cannot be appended. "
            f"Found {', '.join(existing)}. Replace the table (&if_exists=replace), or name another."
        )


def _failed(address: Address, error: Exception, problem: str = "the rows cannot be read") -> DataError:
    if isinstance(error, TangoError):
        return DataError(str(error))
    message = address.hide(str(error)).rstrip(".")
    hint = " A password can be given by PGPASSWORD, by ~/.pgpass, or in the address." if "password" in message else ""
    return DataError(f"{address}: {problem} ({message}).{hint}")


def as_database(source: Any, query: str | None = None) -> Any:
    """The checked address of a database source, with the query; any other source unchanged."""
    if isinstance(source, Path) and source.as_posix().startswith(tuple(f"{scheme}:/" for scheme in KINDS)):
        raise DataError(
            f"the address of a database is a text, and a Path was given: pass it as it is, such as {EXAMPLES}."
        )
    if isinstance(source, list | tuple) and any(map(is_address, source)):
        raise DataError("the address of a database stands alone: it cannot be one of several files.")
    if not is_address(source):
        if query is not None:
            raise DataError(
                f"a query is for a database, found {type(source).__name__} {source!s:.40}: give {EXAMPLES}."
            )
        return source
    address = parse_address(source)
    statement = _statement(address, query)
    return address if query is None else Address(**{**vars(address), "query": statement})
