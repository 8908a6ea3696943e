"""Results -> the page on speed, with its tables, plots and what follows from them. The page is never edited by hand."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from tangokg.bench import prose
from tangokg.bench.form import read
from tangokg.bench.shown import amount, cell, duration, markdown, table
from tangokg.bench.targets import TARGETS
from tangokg.errors import DataError

Result = Mapping[str, Any]
Draw = Callable[[Path], None]


def read_results(folder: Path) -> list[dict[str, Any]]:
    """All results of a folder, in the order of their names."""
    if not folder.is_dir():
        raise DataError(f"{folder}: no such folder; expected one with results of tango bench --out.")
    files = sorted(folder.glob("*.json"))
    if not files:
        raise DataError(f"{folder}: no results are here; make one with tango bench step --out {folder / 'step.json'}.")
    return [read(path) for path in files]


def write_page(results: Sequence[Result], page: Path) -> list[Path]:
    """Write the page and, in ``figures/`` beside it, its plots; returns all files."""
    text, plots = render(results)
    places = [page.parent / "figures" / name for name in plots]
    for place, draw in zip(places, plots.values(), strict=True):
        draw(place)
    page.write_text(text, encoding="utf-8")
    return [page, *places]


def render(results: Sequence[Result]) -> tuple[str, dict[str, Draw]]:
    """The text of the page, and how each of its plots is drawn."""
    plots: dict[str, Draw] = {}
    parts = ["# Speed\n", _fill(prose.START) + "\n", _targets(results), _fill(prose.COMPARED) + "\n"]
    for name, section in SECTIONS.items():
        own = [result for result in results if result["benchmark"] == name]
        if own:
            parts.append(section(own, plots))
    parts += [_machines(results), prose.AGAIN]
    return "\n".join(parts), plots


def _targets(results: Sequence[Result]) -> str:
    parts = ["## What was aimed at\n"]
    for kind, where in (("cuda", "one NVIDIA H200"), ("cpu", "two CPU cores")):
        cells = [target.row(results) for target in TARGETS if target.kind == kind]
        headings = [f"on {where}", "target", "measured", ""]
        parts.append(markdown(headings, cells, left=4) + "\n")
    return "\n".join(parts)


def _by_device(results: Sequence[Result]) -> dict[str, list[Result]]:
    """``name, threads`` -> results, GPUs first."""
    ordered = sorted(results, key=lambda result: (result["kind"] != "cuda", result["device"]))
    found: dict[str, list[Result]] = {}
    for result in ordered:
        found.setdefault(_place(result), []).append(result)
    return found


def _place(result: Result) -> str:
    threads = f", {_many(result['threads'], 'thread')}" if result["kind"] == "cpu" else ""
    return f"{result['device']}{threads}"


def _step(results: Sequence[Result], plots: dict[str, Draw]) -> str:
    from tangokg.bench.plots import plot_step

    parts = ["## A training step beside its floor\n", _fill(prose.STEP) + "\n"]
    for device, own in _by_device(results).items():
        rows = [result["asked"] | result["figures"] | _of_size(result) for result in own]
        names = ["data", "model", "size", "batch_windows", "precision", "step_seconds", "floor_seconds", "ratio"]
        names += ["epoch_seconds", "floor_epoch_seconds", "epoch_ratio", "peak_bytes"]
        headings, cells = table(rows, names)
        parts.append(f"**{device}**\n\n" + markdown(headings, cells, left=3) + "\n")
        picture = _picture(plots, "step", own[0])
        plots[picture] = partial(plot_step, results=own)
        parts.append(f"![Parts of a step on {device}](figures/{picture})\n")
    return "\n".join(parts)


def _picture(plots: Mapping[str, Draw], name: str, result: Result) -> str:
    """A file name that is not taken yet."""
    device = "gpu" if result["kind"] == "cuda" else result["kind"]
    names = [f"{name}-{device}.png", *(f"{name}-{device}-{number}.png" for number in range(2, len(plots) + 3))]
    return next(free for free in names if free not in plots)


def _of_size(result: Result) -> dict[str, str]:
    asked = result["asked"]
    return {"size": f"{asked['dim']}, {asked['layers']} layers"}


def _twin(results: Sequence[Result], plots: dict[str, Draw]) -> str:
    parts = ["## The encoder beside its dense twin\n", _fill(prose.TWIN) + "\n"]
    for device, own in _by_device(results).items():
        rows = [result["asked"] | result["figures"] | row for result in own for row in result["rows"]]
        names = ["data", "windows", "pass", "fast_seconds", "dense_seconds", "ratio"]
        names += ["difference_of_states", "difference_of_gradients", "entities", "touched_rows"]
        parts.append(f"**{device}**\n\n" + markdown(*table(rows, names), left=3) + "\n")
    return "\n".join(parts)


def _growth(results: Sequence[Result], plots: dict[str, Draw]) -> str:
    from tangokg.bench.plots import plot_growth

    parts = ["## What grows with what\n", _fill(prose.GROWTH) + "\n"]
    for device, own in _by_device(results).items():
        for result in own:
            asked = result["asked"]
            about = f"{asked['model']}, {asked['facts']:,} facts at each time, {asked['entities']:,} entities, "
            about += f"k = {asked['history']}, d = {asked['dim']}, {asked['layers']} layers where not said otherwise"
            headings, cells = table(
                result["rows"], ["axis", "value", "forward_seconds", "backward_seconds", "step_seconds"]
            )
            picture = _picture(plots, "growth", result)
            plots[picture] = partial(plot_growth, result=result)
            parts.append(f"**{device}**: {about}.\n\n![Cost over size on {device}](figures/{picture})\n")
            parts.append(markdown(headings, cells) + "\n")
    return "\n".join(parts)


def _gradients(results: Sequence[Result], plots: dict[str, Draw]) -> str:
    from tangokg.bench.plots import plot_gradients

    parts = ["## Three gradients\n", _fill(prose.GRADIENTS) + "\n"]
    for device, own in _by_device(results).items():
        for result in own:
            asked = result["asked"]
            about = f"{asked['facts']:,} facts at each time, k = {asked['history']}, d = {asked['dim']}, "
            about += f"{asked['layers']} layers, {asked['nodes']} nodes of irdm"
            picture = _picture(plots, "gradients", result)
            plots[picture] = partial(plot_gradients, result=result)
            parts.append(f"**{device}**: {about}.\n\n![Three gradients on {device}](figures/{picture})\n")
            parts.append(markdown(*table(result["rows"]), left=0) + "\n")
            parts.append(_which_gradient(result))
    return "\n".join(parts)


def _which_gradient(result: Result) -> str:
    """When each method is the right choice, as the figures say."""
    rows = {(row["gradient"], row["steps"]): row for row in result["rows"]}
    steps = sorted({row["steps"] for row in result["rows"]})
    few, many = steps[0], steps[-1]

    def memory(name: str, count: int) -> str:
        return amount(rows[name, count]["peak_bytes"] or 0)

    def slower(name: str, count: int) -> str:
        return f"{rows[name, count]['seconds'] / rows['direct', count]['seconds']:.1f}"

    def off(name: str) -> str:
        errors = [rows[name, count]["error_in_float64"] for count in (few, many)]
        return f"off by {errors[0]:.0e} with {_many(few, 'step')} and by {errors[1]:.0e} with {many}"

    seconds = {name: duration(rows[name, few]["seconds"]) for name in ("direct", "adjoint", "irdm")}
    one, all_of_them = _many(few, "step"), _many(many, "step")
    less = "less" if rows["irdm", many]["error_in_float64"] < rows["adjoint", many]["error_in_float64"] else "more"
    items = [
        f"`direct` is the right choice as long as its record fits: it is the exact gradient of what was computed, and "
        f"with {one} takes {seconds['direct']} against {seconds['adjoint']} (`adjoint`) and {seconds['irdm']} "
        f"(`irdm`). Its memory grows with the steps: {memory('direct', few)} with {few}, {memory('direct', many)} with "
        f"{many}.",
        f"`adjoint` keeps one state for an interval, {memory('adjoint', many)} in all with {all_of_them}, at "
        f"{slower('adjoint', many)} times the time of `direct`. It integrates the state back as well, on a path that "
        f"is not quite the one it came: {off('adjoint')}. It is for many steps where memory is short and states move "
        f"gently.",
        f"`irdm` keeps the states at its nodes, {memory('irdm', many)} with {all_of_them}, at {slower('irdm', many)} "
        f"times the time of `direct`, and interpolates between them: {off('irdm')}, here {less} than "
        f"`adjoint`. It never integrates the state back, which the paper gives as its reason: a state that shrinks "
        f"fast cannot be integrated back. That case was not measured here. More nodes bring it nearer.",
    ]
    return "\n".join(_fill(item, "- ") for item in items) + "\n"


def _many(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def _fill(text: str, mark: str = "") -> str:
    """A paragraph, or an item of a list, in lines of one width."""
    words = " ".join(text.split())
    return textwrap.fill(
        words,
        119,
        initial_indent=mark,
        subsequent_indent=" " * len(mark),
        break_long_words=False,
        break_on_hyphens=False,
    )


def _evaluate(results: Sequence[Result], plots: dict[str, Draw]) -> str:
    parts = ["## Evaluation\n", _fill(prose.EVALUATE) + "\n"]
    for device, own in _by_device(results).items():
        rows = [result["asked"] | result["figures"] | row for result in own for row in result["rows"]]
        names = ["data", "split", "model", "what", "queries", "entities", "seconds", "queries_a_second", "peak_bytes"]
        parts.append(f"**{device}**\n\n" + markdown(*table(rows, names), left=4) + "\n")
    return "\n".join(parts)


def _load(results: Sequence[Result], plots: dict[str, Draw]) -> str:
    parts = ["## Reading\n", _fill(prose.LOAD) + "\n"]
    for device, own in _by_device(results).items():
        for result in own:
            asked = ", ".join(f"{key} {cell(key, value)}" for key, value in result["asked"].items())
            parts.append(f"**{device}**: {asked}.\n\n" + markdown(*table(result["rows"])) + "\n")
    return "\n".join(parts)


def _observe(results: Sequence[Result], plots: dict[str, Draw]) -> str:
    parts = ["## New facts\n", _fill(prose.OBSERVE) + "\n"]
    for device, own in _by_device(results).items():
        rows = [result["asked"] | row for result in own for row in result["rows"]]
        names = ["data", "facts", "model", "what", "seconds", "seconds_low", "seconds_high"]
        parts.append(f"**{device}**\n\n" + markdown(*table(rows, names), left=4) + "\n")
    return "\n".join(parts)


def _machines(results: Sequence[Result]) -> str:
    """Devices and versions of the results, each once."""
    lines = ["## Devices and versions\n"]
    if not results:
        return "\n".join([*lines, "No results yet: run `tango bench step --out benchmarks/results/step.json`.\n"])
    rows = {
        (_place(r), r["versions"]["python"], r["versions"]["torch"], r["versions"]["tangokg"], r["date"]): r[
            "benchmark"
        ]
        for r in _flat(results)
    }
    headings = ["device", "python", "torch", "tangokg", "date"]
    return "\n".join([*lines, markdown(headings, [list(row) for row in rows], left=5) + "\n"])


def _flat(results: Sequence[Result]) -> list[Result]:
    return [result for own in _by_device(results).values() for result in own]


SECTIONS: dict[str, Callable[[Sequence[Result], dict[str, Draw]], str]] = {
    "step": _step,
    "twin": _twin,
    "growth": _growth,
    "gradients": _gradients,
    "evaluate": _evaluate,
    "load": _load,
    "observe": _observe,
}
