"""A forecast as a data frame and in a notebook."""

from __future__ import annotations

from typing import Any

from tangokg.quads.showing import html_table, to_frame


class Shown:
    """For a value whose ``to_dict`` has ``answers``: a row for each, with whatever an answer has."""

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        raise NotImplementedError

    def to_pandas(self) -> Any:
        """The answers as a pandas DataFrame, the likeliest first; ``df.attrs`` has the question."""
        found = self.to_dict()
        frame = to_frame(_rows(found))
        frame.attrs = {key: value for key, value in found.items() if key != "answers"}
        return frame

    def _repr_html_(self) -> str:
        found = self.to_dict()
        answers = _rows(found)
        rows = [list(map(_cell, answer.values())) for answer in answers]
        headings = list(answers[0]) if rows else []
        when = f"{'by' if found.get('by') else 'at'} {found['at']}"
        title = f"({found['subject']}, {found['relation']}, {found['object']}) {when}"
        return html_table(title, headings, rows)


def _rows(found: dict[str, Any]) -> list[dict[str, Any]]:
    """The answers, each with the chance that there is any, where that is known; reasons are a table of their own."""
    happens = found.get("happens")
    beside = {} if happens is None else {"happens": happens}
    return [{k: v for k, v in answer.items() if k != "reasons"} | beside for answer in found["answers"]]


def _cell(value: object) -> str:
    return f"{value:.1%}" if isinstance(value, float) else "" if value is None else str(value)
