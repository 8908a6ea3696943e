"""Addresses are taken apart as they are meant, and their passwords are in none of the texts that they become."""

from __future__ import annotations

from urllib.parse import quote, unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tangokg.errors import DataError, TangoError
from tangokg.quads.addresses import is_address, parse_address, without_passwords

ANY = st.text(st.characters(codec="utf-8"), min_size=1, max_size=12)


@given(user=ANY, password=ANY, table=ANY)
def test_encoded_parts_come_back_and_the_password_stays_out_of_texts(user: str, password: str, table: str) -> None:
    u, p, t = (quote(text, safe="") for text in (user, password, table))
    address = parse_address(f"postgresql://{u}:{p}@host:5432/name?table={t}&sslmode=require")
    assert (unquote(address.place.partition("@")[0].partition("//")[2]), address.table) == (user, table)
    assert address.options == {"sslmode": "require"}
    assert address.url == f"postgresql://{u}:{p}@host:5432/name?sslmode=require"
    marked = parse_address(f"postgresql://user:SECRET{p}SECRET@host/name?table=events")
    assert "SECRET" not in f"{marked} {marked!r} {marked.name} {marked.place}"
    for form in (f"SECRET{password}SECRET", f"SECRET{p}SECRET", f"SECRET{quote(password)}SECRET"):
        assert "SECRET" not in marked.hide(f"failed for {form} at host")


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("sqlite:///a.db?query=select * from t where o like '%ab%' and x = 'a&b?c#d+e'", None),
        (
            "sqlite:///a.db?query=select%20*%20from%20t%20where%20o%20%3D%20%27a%2Bb%27",
            "select * from t where o = 'a+b'",
        ),
    ],
)
def test_a_query_is_taken_as_it_stands_or_decoded(text: str, query: str | None) -> None:
    assert parse_address(text).query == (query or text.partition("query=")[2])


@pytest.mark.parametrize(
    ("text", "path", "name"),
    [
        ("sqlite:///events.db?table=visits", "events.db", "visits"),
        ("sqlite:////data/events.db?query=select 1", "/data/events.db", "events"),
        ("duckdb:///:memory:?query=select 1", "", "memory"),
        ("duckdb://?query=select 1", "", "events"),
        ("duckdb:///my%20data/all events.duckdb?table=main.visits", "my data/all events.duckdb", "visits"),
        ("postgres://user@host/wiki%2Fpages?query=select 1", "", "wiki-pages"),
    ],
)
def test_files_and_names(text: str, path: str, name: str) -> None:
    address = parse_address(text)
    assert address.name == name
    if address.kind != "postgresql":
        assert address.path == path


def test_words_of_a_command_lose_their_passwords_and_the_reader_finds_them_again() -> None:
    query = "select s, 'a@b' as r from t"
    given = [
        "train",
        f"postgresql://ann:hunter2@host:5432/words?sslmode=require&query={query}",
        "--out=postgresql://ann@host/words?table=answers&password=hunter3",
        "--set",
        "dim=4",
    ]
    clean = without_passwords(given)
    assert "hunter" not in " ".join(clean)
    assert clean[1] == f"postgresql://ann@host:5432/words?sslmode=require&query={query}"
    assert clean[2] == "--out=postgresql://ann@host/words?table=answers"
    assert (clean[0], *clean[3:]) == ("train", "--set", "dim=4")
    assert parse_address(clean[1]).url == "postgresql://ann:hunter2@host:5432/words?sslmode=require"
    assert parse_address(clean[2].removeprefix("--out=")).url == "postgresql://ann@host/words?password=hunter3"
    assert without_passwords(clean) == clean


@pytest.mark.parametrize("word", ["events.csv", "world", "C:\\data\\events.csv", "--out", "a:b@c", "C://events.csv"])
def test_other_sources_are_no_addresses(word: str) -> None:
    assert not is_address(word)
    assert without_passwords([word]) == [word]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("mysql://u:hunter2@h/d?table=t", r"unknown kind of address 'mysql://'. Expected a file, or postgresql://"),
        ("postgresq://u:hunter2@h/d?table=t", r"Did you mean 'postgresql'"),
        ("sqlite:///a.db?table=", r"sqlite:///a.db: the table of the address is empty"),
        ("sqlite:///a.db?query= ", r"sqlite:///a.db: the query of the address is empty"),
        ("sqlite:///a.db?table=t&query=select 1", r"sqlite:///a.db: give a table or a query in the address, not both"),
        ("sqlite:///a.db?table=t&if_exists=appnd", r"unknown value of if_exists 'appnd'. Did you mean 'append'"),
        ("postgresql://u:hunt/er2@h/d?table=t", r"a password with one of / \? # in it: write these percent-encoded"),
        ("postgresql://u:hunt?er2@h/d?table=t", r"a password with one of / \? # in it"),
        ("postgresql://u:hunt#er2@h/d?table=t", r"a password with one of / \? # in it"),
    ],
)
def test_addresses_that_are_none_say_so_without_their_password(text: str, message: str) -> None:
    with pytest.raises(TangoError, match=message) as told:
        parse_address(text)
    assert "hunt" not in str(told.value)


def test_a_driver_that_names_a_password_in_words_is_not_repeated() -> None:
    address = parse_address("duckdb:///a.duckdb?s3_secret_access_key=hunter2&table=t")
    assert "hunter" not in address.hide("attach 'host=h password=hunter4 user=u' with hunter2, SECRET = 'hunter 5'")
    assert "user=u" in address.hide("attach 'host=h password=hunter4 user=u'")


def test_a_password_that_is_not_encoded_in_the_words_of_a_command_is_refused() -> None:
    with pytest.raises(DataError, match="percent-encoded") as told:
        without_passwords(["train", "postgresql://u:hunt/er2@h/d?table=t"])
    assert "hunt" not in str(told.value)
