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


def count_lines(source: str) -> int:
    """Lines that hold code."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in NOTHING:
            lines.update(range(token.start[0], token.end[0] + 1))
    return len(lines - set(docstring_lines(source)))


def docstring_lines(source: str) -> list[int]:
    """Lines of all docstrings."""
    found: list[int] = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0] if node.body else None
            if (
                isinstance(first, ast.Expr)
                and isinstance(first.value, ast.Constant)
                and isinstance(first.value.value, str)
            ):
                found.extend(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    return found


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
        parts = Path(name).parts
        folder = (
            parts[0] if parts[0] == "experiments" else "/".join(parts[:3]) if len(parts) > 3 else "/".join(parts[:2])
        )
        lines[folder] += count_lines(source)
    return lines


def main(words: list[str]) -> None:
    """Print the lines of each folder, of one revision or of several side by side."""
    columns = [by_folder(sources(None if word == "now" else word)) for word in words or ["now"]]
    for folder in sorted({folder for column in columns for folder in column}):
        print(f"{folder:32}" + "".join(f"{column[folder]:10,}" for column in columns))
    print(f"{'all':32}" + "".join(f"{sum(column.values()):10,}" for column in columns))


if __name__ == "__main__":
    main(sys.argv[1:])
