"""Settings are checked field by field, and what is written is read back."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tangokg.config import parse_assignment, read_toml, to_toml, update
from tangokg.errors import ConfigError


@dataclass(frozen=True)
class Settings:
    steps: int = 1
    rate: float = 0.1
    name: str = "a"
    on: bool = False
    limit: float | None = None


def test_fields_are_replaced_and_the_others_kept() -> None:
    before = Settings(name="b")
    assert update(before, {"steps": 3, "rate": 2, "on": True, "limit": 1}, "x") == Settings(3, 2.0, "b", True, 1.0)
    assert before == Settings(name="b")
    assert isinstance(update(before, {"rate": 2}, "x").rate, float)
    assert update(Settings(limit=2.0), {"limit": "none"}, "x").limit is None
    for text in ("2024-01-31", "2024-01-31T06:00:00"):  # TOML has dates
        assert update(before, dict([parse_assignment(f"name={text}")]), "x").name == text


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        ("steps", 1.5, "config: steps must be int, found 1.5"),
        ("steps", True, "must be int, found True"),
        ("steps", "3", "must be int, found '3'"),
        ("rate", "0.1", "must be float, found '0.1'"),
        ("rate", True, "must be float, found True"),
        ("rate", float("nan"), "must be float, found nan"),
        ("rate", float("inf"), "must be float, found inf"),
        ("rate", 10**400, "must be float, found 1000"),
        ("name", 3, "must be str, found 3"),
        ("on", 1, "must be bool, found 1"),
        ("limit", "much", "must be float or none, found 'much'"),
        ("limit", [1.0], "must be float or none"),
    ],
)
def test_a_wrong_type_says_where_what_and_what_is_expected(key: str, value: Any, text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        update(Settings(), {key: value}, "config")


def test_an_unknown_key_names_the_nearest_and_all() -> None:
    with pytest.raises(ConfigError, match=r"here: unknown setting 'step'\. Did you mean steps\? Known: steps, rate"):
        update(Settings(), {"step": 3}, "here")
    with pytest.raises(ConfigError, match=r"unknown setting 'zzz'\. Known"):
        update(Settings(), {"zzz": 3}, "here")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("rate=0.003", ("rate", 0.003)),
        (" rate = 1e-3 ", ("rate", 1e-3)),
        ("steps=3", ("steps", 3)),
        ("on=true", ("on", True)),
        ("name=tucker", ("name", "tucker")),
        ('name="3"', ("name", "3")),
        ("name=a=b", ("name", "a=b")),
        ("name=", ("name", "")),
    ],
)
def test_assignments_are_toml_values_or_bare_words(text: str, expected: tuple[str, Any]) -> None:
    assert parse_assignment(text) == expected


@pytest.mark.parametrize("text", ["rate", "=3", " =3", ""])
def test_an_assignment_without_key_or_value_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="expected key=value"):
        parse_assignment(text)


def test_written_tables_are_read_back() -> None:
    tables = {
        "schema": 1,
        "model": 'quotes " and \\ and ü and \n and \x7f',
        "small": 1e-300,
        "whole": 1e16,
        "none": None,
        "settings": {"on": True, "off": False, "rate": 0.1, "list": [1, 2.5, "x"], "nothing": None},
        "empty": {},
    }
    read = tomllib.loads(to_toml(tables))
    assert read == {
        **{key: tables[key] for key in ("schema", "model", "small", "whole", "empty")},
        "settings": {"on": True, "off": False, "rate": 0.1, "list": [1, 2.5, "x"]},
    }


def test_files_that_are_no_toml_are_named(tmp_path: Path) -> None:
    path = tmp_path / "run.toml"
    with pytest.raises(ConfigError, match=r"run\.toml: no such config file"):
        read_toml(path)
    path.write_text("a = 1\nb = \n")
    with pytest.raises(ConfigError, match=r"run\.toml: not a TOML file: .*line 2"):
        read_toml(path)
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match=r"run\.toml: not a TOML file"):
        read_toml(path)
    with pytest.raises(ConfigError, match="not a TOML file"):
        read_toml(tmp_path)
