"""Lines of code by folder: what ruff formats, without blank lines, comments and docstrings."""

from __future__ import annotations

import ast
import io
import subprocess
import sys
import tokenize
from collections import Counter
from pathlib import Path

NOTHING = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def count_lines(source: str) -> int:
    """Lines that hold code."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in NOTHING:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node) is not None:
            docstring = node.body[0]
            lines.difference_update(range(docstring.lineno, (docstring.end_lineno or docstring.lineno) + 1))
    return len(lines)


def sources(revision: str | None) -> dict[str, str]:
    """Python files of src/ and experiments/ by path, as they are or as they were in a revision."""
    folders = ("src", "experiments")
    if revision is None:
        return {str(path): path.read_text(encoding="utf-8") for f in folders for path in Path(f).rglob("*.py")}
    names = _git("ls-tree", "-r", "--name-only", revision, *folders).split("\n")
    return {name: _git("show", f"{revision}:{name}") for name in names if name.endswith(".py")}


def _git(*words: str) -> str:
    return subprocess.run(["git", *words], check=True, capture_output=True, text=True).stdout


def by_folder(files: dict[str, str]) -> Counter[str]:
    """Lines of code of each folder of the package, and of experiments as a whole."""
    lines: Counter[str] = Counter()
    for name, source in files.items():
        depth = 1 if name.startswith("experiments") else 3
        lines["/".join(Path(name).parent.parts[:depth])] += count_lines(source)
    return lines


def main(words: list[str]) -> None:
    """Print the lines of each folder, of one revision or of several side by side."""
    columns = [by_folder(sources(None if word == "now" else word)) for word in words or ["now"]]
    for folder in sorted({folder for column in columns for folder in column}):
        print(f"{folder:32}" + "".join(f"{column[folder]:10,}" for column in columns))
    print(f"{'all':32}" + "".join(f"{sum(column.values()):10,}" for column in columns))


if __name__ == "__main__":
    main(sys.argv[1:])
