"""How Sphinx makes the site, ``make docs``: the Markdown of the repository as it is, from its root."""

from __future__ import annotations

import os
import re
import shutil
from html import unescape
from pathlib import Path
from typing import Any

from docutils.nodes import SkipNode
from latex2mathml.converter import convert
from plotly import offline

os.environ["PLOTLY_RENDERER"] = "notebook"  # of the kernels: figures as HTML

HERE = Path(__file__).parent
PROJECT = ("CONTRIBUTING", "CHANGELOG", "experiments/README", "experiments/configs/README")

project = "tangokg"
html_title = "tangokg"
extensions = ["myst_nb", "sphinx.ext.autodoc"]
root_doc = "README"
include_patterns = ["README.md", "docs/**", *(f"{page}.md" for page in PROJECT)]
exclude_patterns = [".venv", "build", "**/.ipynb_checkpoints"]
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 4
nb_execution_mode = "auto"  # notebooks are kept without outputs
nb_execution_in_temp = True
nb_execution_timeout = 600
nb_execution_raise_on_error = True
nb_merge_streams = True
autodoc_typehints = "description"
html_theme = "furo"
html_math_renderer = "mathml"
html_copy_source = False
html_static_path = [str(Path(offline.__file__).parents[1] / "package_data" / "plotly.min.js"), str(HERE / "site.css")]
html_css_files = ["site.css"]


def add_contents(app: Any, docname: str, source: list[str]) -> None:
    """Navigation: what docs/README.md lists, and below a page the folder of its name."""
    folder = HERE / Path(docname).name
    if docname == root_doc:
        _, *sections = re.split(r"^\*\*(.+)\*\*$", (HERE / "README.md").read_text(encoding="utf-8"), flags=re.MULTILINE)
        for heading, text in zip(sections[::2], sections[1::2], strict=True):
            source[0] += contents([f"docs/{page}" for page in re.findall(r"\]\(([\w-]+)\.(?:md|rst)\)", text)], heading)
        source[0] += contents(["docs/README", *PROJECT], "Project")
    elif docname.startswith("docs/") and folder.is_dir():
        source[0] += contents(sorted(f"{folder.name}/{page.stem}" for page in folder.iterdir() if page.is_file()))


def contents(pages: list[str], caption: str = "") -> str:
    """A table of contents that stands in the navigation alone."""
    option = f":caption: {caption}\n" if caption else ""
    return "\n\n```{toctree}\n:hidden:\n" + option + "\n".join(["", *pages]) + "\n```\n"


def share_plotly(app: Any, page: str, template: str, context: dict[str, Any], tree: Any) -> None:
    """Notebooks have the script of plotly in a file of the site, and none from elsewhere."""
    if "plotly" in (body := context.get("body", "")):
        body = re.sub(r'<script src="https://[^>]*></script>', "", body)
        shared = f'<script src="{context["pathto"]("_static/plotly.min.js", resource=True)}"></script>'
        context["body"] = body.replace(f"<script>{offline.get_plotlyjs()}</script>", shared)


def add_index(app: Any, error: Exception | None) -> None:
    if error is None:
        shutil.copy(app.outdir / f"{root_doc}.html", app.outdir / "index.html")


def inline_formula(page: Any, node: Any) -> None:
    page.body.append(mathml(node.astext(), "inline"))
    raise SkipNode


def block_formula(page: Any, node: Any) -> None:
    page.body.append(mathml(node.astext(), "block"))
    raise SkipNode


def mathml(formula: str, display: str) -> str:
    """A formula as browsers set it: bars are fences, and a script letter is a letter of its own."""
    formula = formula.replace(r"\lvert", r"\left|").replace(r"\rvert", r"\right|")
    script = re.compile(r'<mi mathvariant="script">([A-Z])</mi>')
    return script.sub(lambda found: unescape(f"<mi>&{found[1]}scr;</mi>"), convert(formula, display=display))


def setup(app: Any) -> None:
    app.connect("source-read", add_contents)
    app.connect("html-page-context", share_plotly)
    app.connect("build-finished", add_index)
    app.add_html_math_renderer("mathml", (inline_formula, None), (block_formula, None))
