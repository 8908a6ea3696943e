"""Our numbers beside the paper's best, set by set, and what they owe to each departure from it."""

from __future__ import annotations

from tangokg.reproduce.cells import Cell
from tangokg.reproduce.claims import OPEN, counted, fill_with, value
from tangokg.reproduce.inputs import NONE
from tangokg.reproduce.paper import published
from tangokg.reproduce.presets import (
    BASELINES,
    DECODERS,
    MEASURED,
    PRINTED,
    TIME_SCALE,
    UNNORMALISED,
    WINDOWS,
    WITHOUT_LENGTH,
    best_decoder,
    experiments,
    paper_step_time,
)
from tangokg.reproduce.store import Results
from tangokg.reproduce.view import MISSING

REBUILT = {"ICEWS05-15": "rebuilt training file"}  # the published facts; order of rows and 4,207 entity ids differ
LENGTHS = "Without states of one length"
TIMES = f"With windows of {WINDOWS[0]:g}, near the paper's time scale, and states of one length"


def beside_paper(results: Results) -> list[tuple[str, ...]]:
    """Each set: what our best paper-form preset by validation departs in, the best that the paper prints for it, our
    run of the paper as printed, our best in paper form, the same with the paper's gradient, and the others."""
    rows: list[tuple[str, ...]] = []
    for data in MEASURED:
        best, printed, others = best_printed(data), _as_printed(results, data), _others(results, data)
        told = NONE if best is None else f"{best:.2f}"
        name = f"{data}, {REBUILT[data]}" if data in REBUILT else data
        models = {model: value(results, "main", row=model, column=data) for model in ("TANGO-TuckER", "TANGO-DistMult")}
        there = {model: found for model, found in models.items() if found}
        if not there:
            rows.append((name, "", told, printed, OPEN, fill_with(f"paper-{best_decoder(data)}/{data}"), *others))
            continue
        valid = {model: value(results, "validation", row=model, column=data) for model in there}
        model = max((found.mean if found else 0.0, model) for model, found in valid.items())[1]
        found = there[model]
        around = "" if found.spread is None else f" ± {found.spread:.2f}"
        ours = f"{found.mean:.2f}{around} ({model}, {counted(found.seeds, 'seed')})"
        preset = next(f"paper-{decoder}" for decoder, row in DECODERS.items() if row == model)
        departures, with_irdm = _form(results, preset, data)
        rows.append((name, departures, told, printed, ours, with_irdm, *others))
    return rows


def best_printed(data: str) -> float | None:
    """The best test MRR that the paper prints for a set; None for a set that it does not have."""
    printed = published()["main"].values
    return max(
        (float(p.value) for (_, of, metric), p in printed.items() if (of, metric) == (data, "mrr")), default=None
    )


def _as_printed(results: Results, data: str) -> str:
    """Our run of the paper as printed, with the decoder of its best result."""
    if data not in PRINTED:
        return NONE
    found = _test_mrr(results, f"printed-{best_decoder(data)}/{data}")
    return MISSING if found is None else f"{found:.2f} ({DECODERS[best_decoder(data)]})"


def _test_mrr(results: Results, config: str) -> float | None:
    """Of the first seed, time-aware."""
    found = results.of(config)
    return found[0]["test"]["time-aware"]["mrr"] if found else None


def what_departures_are_worth(results: Results) -> str:
    """In a paragraph: test MRR without states of one length, and near the paper's time scale, beside the paper's."""
    texts = []
    for what, sets, variant in (
        (LENGTHS, UNNORMALISED, WITHOUT_LENGTH),
        (TIMES, PRINTED, f"window-{WINDOWS[0]:g}"),
    ):
        there = {data: _test_mrr(results, f"paper-{best_decoder(data)}-{variant}/{data}") for data in sets}
        figures = [f"{data} has {mrr:.2f} ({best_printed(data):.2f})" for data, mrr in there.items() if mrr is not None]
        left = [data for data, mrr in there.items() if mrr is None]
        open_ones = f" ({', '.join(left)}: {OPEN})" if left else ""
        texts.append(f"{what} {', '.join(figures) or OPEN}{open_ones if figures else ''}.")
    return f"What the paper form owes to its departures, as test MRR with the paper's in brackets. {' '.join(texts)}"


def _form(results: Results, preset: str, data: str) -> tuple[str, str]:
    """What a preset departs in, and what the interpolated reverse gradient gives in its place."""
    name = f"{preset}-irdm/{data}"
    mrr = results.value(Cell("main", "", data, "paper form", "mrr", name, ("test", "time-aware")))
    experiment = experiments()[f"{preset}/{data}"]
    scale = f"{TIME_SCALE} (a step of {experiment.settings['step_time']:g} for {paper_step_time(data):.1g})"
    named = [scale if departure == TIME_SCALE else departure for departure in experiment.departures]
    return ", ".join(named), f"{mrr.mean:.2f}" if mrr else ""


def _others(results: Results, data: str) -> tuple[str, str]:
    """Of our runs of baselines on a set the one with the best validation MRR, and the recurrency baseline."""

    def figures(model: str) -> tuple[float, float] | None:
        found = results.of(f"baseline-{model}/{data}")
        return (found[0]["valid"]["time-aware"]["mrr"], found[0]["test"]["time-aware"]["mrr"]) if found else None

    known = {row: figures(model) for row, model in BASELINES.items()}
    there = {row: found for row, found in known.items() if found}
    row = max(there, key=lambda row: there[row][0], default="")
    counted = figures("recurrency")
    return f"{there[row][1]:.2f} ({row})" if row else "", f"{counted[1]:.2f}" if counted else ""
