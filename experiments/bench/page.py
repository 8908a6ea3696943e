"""Results of benchmarks -> the tables of ``docs/speed.md``, and its figures."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from experiments.bench.form import read
from experiments.bench.plots import plot_gradients, plot_grown, plot_growth, plot_step
from experiments.bench.shown import markdown, table
from experiments.bench.targets import target_row, targets
from experiments.plots import write_figures

RESULTS = Path(__file__).parent / "results"
Result = Mapping[str, Any]

COLUMNS = {  # of each table; those of ``step`` come from the figures, of the others from the rows
    "step": "data model size batch_windows precision step_seconds floor_seconds ratio epoch_seconds "
    "floor_epoch_seconds epoch_ratio peak_bytes",
    "twin": "data windows pass fast_seconds dense_seconds ratio difference_of_states difference_of_gradients entities "
    "touched_rows",
    "growth": "axis value forward_seconds backward_seconds step_seconds",
    "grown": "axis facts entities steps step_seconds epoch_seconds dominates peak_bytes resident_bytes questions "
    "evaluate_seconds question_seconds",
    "gradients": "steps gradient seconds peak_bytes error error_in_float64",
    "evaluate": "data split model what queries entities seconds queries_a_second peak_bytes",
    "load": "form facts read_seconds read_facts_a_second read_peak_bytes build_seconds seconds facts_a_second "
    "peak_bytes",
    "observe": "data facts model what seconds",
    "serve": "what count median_seconds p95_seconds p99_seconds resident_bytes",
}
LEFT = {"step": 3, "twin": 3, "gradients": 2, "evaluate": 4, "observe": 4}  # columns of text; else one
ABOUT = {  # what was asked, where every device was asked something else
    "growth": "{model}, {facts:,} facts at each time, {entities:,} entities, k = {history}, d = {dim}, {layers} layers",
    "grown": "{model}, d = {dim}, about {at_once:,} facts at each time; {steps} steps measured",
    "gradients": "{facts:,} facts at each time, k = {history}, d = {dim}, {layers} layers, {nodes} nodes of irdm",
    "serve": "{data}, {facts:,} facts, {model} ({size}), {clients} clients, {new} facts posted every second",
}
PLOTS = {"step": plot_step, "growth": plot_growth, "grown": plot_grown, "gradients": plot_gradients}


def read_results(folder: Path = RESULTS) -> list[Result]:
    """All results of a folder, GPUs first."""
    results = map(read, sorted(folder.glob("*.json")))
    return sorted(results, key=lambda result: (result["kind"] != "cuda", result["device"]))


def blocks_of_speed(folder: Path = RESULTS) -> dict[str, Callable[[], str]]:
    """Name of a block of the page -> function that renders it."""
    results = read_results(folder)
    blocks: dict[str, Callable[[], str]] = {f"speed {name}": partial(show_table, name, results) for name in COLUMNS}
    return blocks | {
        "speed targets cuda": partial(show_targets, "cuda", results),
        "speed targets cpu": partial(show_targets, "cpu", results),
        "speed devices": partial(show_devices, results),
    }


def show_targets(kind: str, results: Sequence[Result]) -> str:
    """Targets on one kind of device."""
    where = {"cuda": "one NVIDIA H200", "cpu": "two CPU cores"}[kind]
    rows = [target_row(target, results) for target in targets(kind)]
    return markdown([f"on {where}", "target", "measured", ""], rows, left=4)


def show_table(name: str, results: Sequence[Result]) -> str:
    """One table for each device."""
    parts = []
    for device, of_device in _by_device(name, results).items():
        about = f": {ABOUT[name].format(**of_device[0]['asked'])}" if name in ABOUT else ""
        parts.append(f"**{device}**{about}")
        if name in PLOTS:
            parts.append(f"![{name}, {device}](figures/{picture(name, of_device[0])})")
        rows = [row for result in of_device for row in _rows(name, result)]
        parts.append(markdown(*table(rows, COLUMNS[name].split()), left=LEFT.get(name, 1)))
    return "\n\n".join(parts)


def _rows(name: str, result: Result) -> list[Result]:
    """The rows of a result with its parameters and figures; a step has one row for all its parts."""
    summary = result["asked"] | result["figures"]
    if name == "step":
        return [summary | {"size": f"{summary['dim']}, {summary['layers']} layers"}]
    return [summary | row for row in result["rows"]]


def _by_device(name: str, results: Sequence[Result]) -> dict[str, list[Result]]:
    devices: dict[str, list[Result]] = {}
    for result in results:
        if result["benchmark"] == name:
            devices.setdefault(_place(result), []).append(result)
    return devices


def _place(result: Result) -> str:
    return f"{result['device']}, {result['threads']} threads" if result["kind"] == "cpu" else str(result["device"])


def picture(name: str, result: Result) -> str:
    """The file of a figure: one for each kind of device."""
    return f"{name}-{'gpu' if result['kind'] == 'cuda' else result['kind']}.png"


def show_devices(results: Sequence[Result]) -> str:
    """Devices and versions of the results, each once."""
    rows = dict.fromkeys(
        (_place(r), *(r["versions"][v] for v in ("python", "torch", "tangokg")), r["date"]) for r in results
    )
    return markdown(("device", "python", "torch", "tangokg", "date"), list(rows), left=5)


def write_plots(folder: Path, results: Sequence[Result]) -> list[Path]:
    """The figures of the page."""
    figures = {}
    for name, plot in PLOTS.items():
        for of_device in _by_device(name, results).values():
            figures[picture(name, of_device[0])] = plot(of_device)
    return write_figures(folder, figures)
