"""The pages are executed, and what they name exists: blocks, commands, options, settings, functions, tests, links."""

from __future__ import annotations

import ast
import inspect
import re
import runpy
import shlex
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import MISSING, fields
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.main import get_command

import tangokg
from conftest import make_timeline
from experiments.experiment import experiments
from experiments.tables import COUNTERS, RUN
from tangokg.cli import main
from tangokg.cli.app import app
from tangokg.decode import DECODERS
from tangokg.models import MODELS
from tangokg.quads.world import make_world
from tangokg.rank import SINGLE_STEP
from tangokg.train import TrainSettings, make_config

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
SOURCES = sorted((ROOT / "src").rglob("*.py"))
SETTINGS: list[Any] = [TrainSettings, *dict.fromkeys(type(recipe.settings) for recipe in MODELS.values())]
SETTINGS += dict.fromkeys(decoder.settings for decoder in DECODERS.values())
FIELDS = {field.name for settings in SETTINGS for field in fields(settings)}

each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)


def text_of(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def blocks(text: str) -> list[tuple[str, str, str]]:
    """(language, name of a file or nothing, content) of every fenced block."""
    return re.findall(r"^```(\w*) ?([^\n]*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def prose(text: str) -> str:
    """The page without its fenced blocks."""
    return re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)


def spans(text: str) -> list[str]:
    """What stands between single backticks."""
    return re.findall(r"`([^`\n]+)`", prose(text))


def commands(content: str, prompt: str) -> Iterator[list[str]]:
    """The command lines of a block, as words."""
    for line in content.replace("\\\n", " ").splitlines():
        if line.startswith(prompt) and line.strip():
            yield shlex.split(line.removeprefix(prompt), comments=True)


def section(text: str, heading: str) -> str:
    """From a heading that holds these words to the next of its level."""
    found = re.search(rf"^(#+) [^\n]*{re.escape(heading)}[^\n]*\n(.*?)(?=^\1 |\Z)", text, re.MULTILINE | re.DOTALL)
    assert found, f"there is no section {heading!r}"
    return found[2]


def table_rows(text: str) -> list[list[str]]:
    """The cells of every table row, headers included."""
    lines = re.findall(r"^\|(.*)\|$", prose(text), re.MULTILINE)
    return [[cell.strip() for cell in line.split(" | ")] for line in lines if not set(line) <= set("|-: ")]


# Executed


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """The tensors are small."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(autouse=True)
def _same_models() -> Iterator[None]:
    """A page may add one for itself."""
    before = dict(MODELS)
    yield
    MODELS.clear()
    MODELS.update(before)


def execute(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """One command line of a page; what is neither ours nor known to be harmless has no place on it."""
    if words[0] == "tango":
        assert main(words[1:]) == 0, shlex.join(words)
    elif words[0] == "python":
        monkeypatch.setattr(sys, "argv", words[1:])
        runpy.run_path(str(ROOT / words[1]), run_name="__main__")
    elif words[0] == "make":
        assert re.search(rf"^{words[1]}:", text_of("Makefile"), re.MULTILINE), shlex.join(words)
    elif words[0] == "jupyter":  # tests/docs/test_notebooks.py executes all of them
        assert words[1] == "execute", shlex.join(words)
        assert all((ROOT / path).exists() for path in words[2:]), shlex.join(words)
    else:
        assert words == ["source", ".venv/bin/activate"]


@pytest.fixture
def _little_to_train(monkeypatch: pytest.MonkeyPatch) -> None:
    """The world by its name is a small one, and a page that names no number of epochs trains for a few."""
    small = partial(make_world, num_actors=60, num_newcomers=4, num_days=90)
    monkeypatch.setattr("tangokg.quads.sources.make_world", small)
    monkeypatch.setattr("tangokg.train.settings.RUN_EPOCHS", (2, 4))


LONG = ("cluster.md", "large.md", "report.md", "tuning.md", "walkthrough.md")  # make test-all runs their blocks


def _page(path: Path) -> Any:
    return pytest.param(path, marks=[pytest.mark.slow] if path.name in LONG else [], id=path.name)


@pytest.mark.usefixtures("_little_to_train")
@pytest.mark.parametrize("page", [*map(_page, PAGES)])
def test_every_block_of_a_page_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, Any] = {"__name__": "page"}
    for language, name, content in blocks(page.read_text(encoding="utf-8")):
        if name:
            Path(name).write_text(content, encoding="utf-8")
        elif language == "python":
            exec(compile(content, page.name, "exec", dont_inherit=True), namespace)
        elif language in ("console", "bash"):
            for words in commands(content, "$ " if language == "console" else ""):
                execute(words, monkeypatch)
        else:
            assert language in ("text", "toml"), f"a block of {language!r} is not executed"


NEEDS = {"foreign_models": ("pykeen", "torch_geometric")}  # examples with what they import; these take long


def _example(path: Path) -> Any:
    return pytest.param(path, marks=[pytest.mark.slow] if path.stem in NEEDS else [], id=path.stem)


@pytest.mark.parametrize("example", [*map(_example, EXAMPLES)])
def test_every_example_runs(
    example: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [str(example)])
    for package in NEEDS.get(example.stem, ()):
        pytest.importorskip(package, reason=f"{package} is not installed: the example is not executed")
    runpy.run_path(str(example), run_name="__main__")
    assert capsys.readouterr().out


# The command line


def command_tree() -> dict[str, Any]:
    """Words of a command, such as "data list" -> the command; "" is ``tango`` itself."""

    def below(command: Any, words: str) -> Iterator[tuple[str, Any]]:
        yield words, command
        for name, child in getattr(command, "commands", {}).items():
            yield from below(child, f"{words} {name}".strip())

    return dict(below(get_command(app), ""))


TREE = command_tree()


def options_of(command: str) -> set[str]:
    """All spellings of the options of a command and of ``tango``, which may stand anywhere."""
    parameters = [*TREE[command].params, *TREE[""].params]
    return {name for p in parameters if p.param_type_name == "option" for name in p.opts} | {"--help"}


@each_page
def test_commands_options_and_settings_that_a_page_names_exist(page: Path) -> None:
    everything = set().union(*map(options_of, TREE))
    for span in spans(page.read_text(encoding="utf-8")):
        words = span.replace("'", "").split()
        if words[0] == "tango" and len(words) > 1:
            named = next((c for c in (" ".join(words[1:3]), words[1]) if c in TREE), "")
            assert named or words[1].startswith("-") or words[1] == "COMMAND", span
            assert {word for word in words if word.startswith("--")} <= options_of(named), span
        elif words[0].startswith("--"):
            assert words[0] in everything, span
        for key in re.findall(r"--set ([a-z_]+)=", span):
            assert key in FIELDS, span


def test_every_command_and_option_is_explained() -> None:
    page = text_of("docs/cli.md")
    for command, parsed in TREE.items():
        if hasattr(parsed, "commands"):
            continue
        explained = section(page, f"`tango {command}`")
        own = {p.opts[0] for p in parsed.params if p.param_type_name == "option"}
        listed = set(re.findall(r"^\| `(--[a-z-]+)", explained, re.MULTILINE))
        assert listed == own, f"tango {command}: {sorted(listed ^ own)} stand on one side only"


# Settings, models, functions


def settings_table(settings: type) -> str:
    """The fields of a settings class with defaults and comments, as the page must hold them."""
    source = inspect.getsource(settings)
    lines = ["| setting | default | meaning |", "|---|---|---|"]
    for field in fields(settings):
        line = re.search(rf"^    {field.name}: [^#\n]*(?:# (.*))?$", source, re.MULTILINE)
        value = field.default if field.default_factory is MISSING else field.default_factory()
        default = value if isinstance(value, str) else str(value).lower()
        lines.append(f"| `{field.name}` | {default} | {(line[1] or '') if line else ''} |".replace("|  |", "| |"))
    return "\n".join(lines)


@pytest.mark.parametrize("settings", [s for s in SETTINGS if fields(s)], ids=lambda settings: settings.__name__)
def test_the_tables_of_settings_are_those_of_the_code(settings: type) -> None:
    found = section(text_of("docs/api.md"), f"`{settings.__name__}`")
    table = settings_table(settings)
    assert table in found, f"docs/api.md, {settings.__name__}: the table should be\n\n{table}\n"


@each_page
def test_tables_of_settings_elsewhere_name_settings(page: Path) -> None:
    for table in re.findall(r"^\| setting \|.*?(?=^[^|])", prose(page.read_text()) + "\n", re.MULTILINE | re.DOTALL):
        for cells in table_rows(table)[1:]:
            assert set(re.findall(r"`(\w+)`", cells[0])) <= FIELDS, cells[0]


def test_switches_of_the_differences_are_settings_with_possible_values() -> None:
    switches = [span for span in spans(text_of("docs/differences.md")) if re.fullmatch(r"\w+=\S+", span)]
    assert len(switches) > 8
    make_config("tango-tucker", assignments=switches)


def test_the_readme_lists_every_model_and_command() -> None:
    listed = set(re.findall(r"^\| `([^`]+)` \|", section(text_of("README.md"), "Models"), re.MULTILINE))
    assert listed == set(MODELS)
    words = re.findall(r"^\| `tango ([a-z ]*[a-z])", section(text_of("README.md"), "Commands"), re.MULTILINE)
    assert set(words) == {command for command, parsed in TREE.items() if not hasattr(parsed, "commands")}


def resolve(name: str) -> Any:
    """``fields.derivative.TangoField.bind`` or ``tk.fit`` -> the object."""
    found: Any = tangokg
    path = "tangokg"
    for word in name.removeprefix("tk.").removeprefix("tangokg.").split("."):
        path = f"{path}.{word}"
        found = getattr(found, word) if hasattr(found, word) else import_module(path)
    return found


def signature(function: Any) -> str:
    """Parameters without annotations; the default protocol by its name."""
    parameters = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.name != "self":
            shown = str(parameter.replace(annotation=inspect.Parameter.empty))
            parameters.append(shown.replace(repr(SINGLE_STEP), "SINGLE_STEP"))
            if parameter.kind is parameter.KEYWORD_ONLY and "*" not in "".join(parameters):
                parameters.insert(-1, "*")
    return f"({', '.join(parameters)})"


def test_signatures_of_the_reference_are_those_of_the_code() -> None:
    headings = re.findall(r"^#+ `([\w.]+)(\(.*\))`$", text_of("docs/api.md"), re.MULTILINE)
    assert len(headings) > 12
    for name, shown in headings:
        assert shown == signature(resolve(name)), name


def test_every_public_name_is_in_the_reference() -> None:
    page = text_of("docs/api.md")
    assert all(re.search(rf"^#+ .*`tk\.{name}\b", page, re.MULTILINE) for name in tangokg.__all__)
    methods = [name for name in vars(tangokg.Forecaster) if not name.startswith("_")]
    assert all(f"`tk.Forecaster.{name}" in page for name in methods)


# The mathematics


def maths() -> dict[int, list[str]]:
    """Number of each row -> its cells."""
    return {int(cells[0][1:]): cells for cells in table_rows(text_of("docs/maths.md")) if re.match(r"M\d+$", cells[0])}


@pytest.mark.parametrize("number", maths())
def test_functions_and_tests_of_a_row_exist(number: int) -> None:
    functions, tests = (re.findall(r"`([^`]+)`", cell) for cell in maths()[number][-2:])
    assert functions
    assert tests
    assert all(callable(resolve(name)) for name in functions)
    for place in tests:
        file, _, name = place.partition("::")
        tree = ast.parse(text_of(f"tests/{file}"))
        assert name in {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}, place


def test_rows_are_numbered_without_gaps_and_docstrings_name_the_right_ones() -> None:
    rows = maths()
    assert list(rows) == list(range(1, len(rows) + 1))
    named = 0
    for path in SOURCES:
        module = ".".join(path.relative_to(ROOT / "src" / "tangokg").with_suffix("").parts)
        for numbers in re.findall(r"docs/maths\.md, rows? ([M\d, to]+)", path.read_text(encoding="utf-8")):
            ends = [int(n) for n in re.findall(r"M(\d+)", numbers)]
            for number in range(ends[0], ends[-1] + 1) if " to " in numbers else ends:
                assert f"`{module}." in rows[number][-2], f"{path.name} names row M{number}, which is of another module"
                named += 1
    assert named > 12


def class_of(name: str) -> type:
    """Of a model, by a look at one without memory."""
    recipe, train = MODELS[name], make_timeline()
    with torch.device("meta"):
        return type(recipe.build(recipe.settings, train, torch.Generator()))


@pytest.mark.parametrize("name", MODELS)
def test_every_model_has_a_row_of_its_own(name: str) -> None:
    functions = [resolve(f) for cells in maths().values() for f in re.findall(r"`([^`]+)`", cells[-2])]
    assert class_of(name) in functions


BASELINES = {e.model for e in experiments().values() if e.form == RUN and e.row and e.row not in COUNTERS}


@pytest.mark.parametrize("name", [*sorted(BASELINES), "recurrency"])
def test_a_baseline_says_its_formula_its_source_and_what_it_does_at_a_time_never_seen(name: str) -> None:
    text = " ".join((class_of(name).__doc__ or "").split())
    assert ".. math::" in text
    assert re.search(r"\b20[012]\d\b", text), "the year of the paper"
    assert re.search(r"never seen in training|training never saw|never one of training|at all times", text) or (
        "No time needs to have been seen in training" in text
    )


# Links and promises


@each_page
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    for link in re.findall(r"\]\(([^)]+)\)", prose(page.read_text(encoding="utf-8"))):
        if link.startswith("https://"):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        if anchor:
            headings = re.findall(r"^#+ (.*)$", prose(target.read_text(encoding="utf-8")), re.MULTILINE)
            assert anchor in {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in headings}, link


def test_every_page_is_listed_once() -> None:
    """The lists are the navigation of the site."""
    listed = re.findall(r"\]\(([\w-]+\.(?:md|rst))\)", text_of("docs/README.md"))
    there = {path.name for path in (ROOT / "docs").iterdir() if path.suffix in (".md", ".rst")} - {"README.md"}
    assert sorted(listed) == sorted(there)


def test_every_module_with_a_formula_is_among_the_docstrings() -> None:
    listed = re.findall(r"^\.\. automodule:: (\S+)$", text_of("docs/docstrings.rst"), re.MULTILINE)
    formulas = [path for path in SOURCES if ".. math::" in path.read_text(encoding="utf-8")]
    assert len(formulas) > 30
    assert {".".join(path.relative_to(ROOT / "src").with_suffix("").parts) for path in formulas} <= {*listed}


def test_every_dependency_has_its_reason() -> None:
    project = tomllib.loads(text_of("pyproject.toml"))["project"]
    needed = [*project["dependencies"], *(d for extra in project["optional-dependencies"].values() for d in extra)]
    reasons = section(text_of("docs/decisions.md"), "Dependencies")
    assert [d for d in needed if f"`{re.split(r'[^A-Za-z0-9._-]', d)[0]}`" not in reasons] == []
