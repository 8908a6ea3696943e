"""The page that adds a model: short, as it says in what it takes, and what it adds keeps the laws of every model."""

from __future__ import annotations

import inspect
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from docs.test_docs import blocks, text_of
from laws import test_models as laws
from tangokg.models import MODELS
from tangokg.train import make_config

PAGE = text_of("docs/add-a-model.md")
LAWS: dict[str, Callable[..., None]] = {
    name: law
    for name, law in vars(laws).items()
    if name.startswith("test_") and "name" in inspect.signature(law).parameters
}


@pytest.fixture
def added() -> Iterator[str]:
    """The model, as long as a test runs."""
    before = dict(MODELS)
    namespace: dict[str, Any] = {"__name__": "page"}
    for language, _, content in blocks(PAGE):
        if language == "python":
            exec(compile(content, "add-a-model.md", "exec", dont_inherit=True), namespace)
    (name,) = MODELS.keys() - before.keys()
    yield name
    del MODELS[name]


def test_the_page_is_short_and_adds_one_file_one_line_and_a_preset(added: str) -> None:
    assert len(PAGE.splitlines()) < 60
    _, line = (content for language, _, content in blocks(PAGE) if language == "python")
    imported, added_line = filter(None, line.splitlines())
    assert imported.startswith("from tangokg.models import ")
    assert added_line.startswith(f'MODELS["{added}"] = Recipe(')
    (preset,) = (content for language, _, content in blocks(PAGE) if language == "toml")
    config = make_config(tables=tomllib.loads(preset))
    assert (config.model, config.train.batch_queries) == (added, MODELS[added].train["batch_queries"])
    assert config.settings != MODELS[added].settings


@pytest.mark.parametrize("law", LAWS)
def test_the_model_of_the_page_keeps_every_law(law: str, added: str, tmp_path: Path) -> None:
    given = {"name": added, "more": {}, "tmp_path": tmp_path, "precision": "32-true"}
    LAWS[law](**{key: given[key] for key in inspect.signature(LAWS[law]).parameters})


def test_the_laws_are_there() -> None:
    assert len(LAWS) > 10
