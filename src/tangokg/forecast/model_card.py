"""The model card of a shared run: its data, figures and calibration, for people and for the search of the hub."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tangokg.config import to_toml
from tangokg.errors import harmless_line
from tangokg.forecast.loading import HUB, hub

if TYPE_CHECKING:
    from tangokg.forecast.forecaster import Forecaster

TAGS = ["temporal-knowledge-graph", "link-prediction", "forecasting", "tangokg"]
FIGURES = {"mrr": "MRR", "hits@1": "Hits@1", "hits@3": "Hits@3", "hits@10": "Hits@10"}
KINDS = {"pair": "subject and relation have any fact", "fact": "the fact happens"}  # chances that people read


def model_card(
    forecaster: Forecaster,
    name: str,
    facts: bool,
    license: str,
    metrics: Mapping[str, Any],
    reliability: Mapping[str, Any],
) -> str:
    """Markdown behind a header in YAML; ``metrics`` and ``reliability`` are of the form in ``metrics.json``."""
    config, data = forecaster.config, _cell(forecaster.dataset.name)
    tables = {key: value for key, value in config.to_tables().items() if key != "schema"}
    sections = [
        f"# {name}",
        f"The model `{config.model}` of tangokg, trained on *{data}*. It forecasts who or what completes a dated fact "
        f"(subject, relation, object), with a chance for each answer.",
        f"## Use\n\n```python\n{_usage(name, facts)}```",
        f"## Facts\n\n{_about_facts(facts)}",
        f"## Data\n\n{_data(forecaster)}",
        f"## Figures\n\n{_figures(metrics)}",
        f"## Calibration\n\n{_calibration(reliability)}",
        f"## Settings\n\n```toml\n{to_toml(tables)}```",
    ]
    return f"---\n{_header(forecaster, name, license, metrics)}\n---\n\n" + "\n\n".join(sections) + "\n"


def _header(forecaster: Forecaster, name: str, license: str, metrics: Mapping[str, Any]) -> str:
    package, dataset = hub(), forecaster.dataset.name
    kind = re.sub(r"[^a-z0-9]+", "-", dataset.lower()).strip("-") or "events"
    task = {"task_type": "graph-ml", "task_name": "Link forecasting", "dataset_type": kind, "dataset_name": dataset}
    values = metrics.get("test", {}).get("time-aware", {})
    measured = [
        package.EvalResult(**task, dataset_split="test", metric_type=key, metric_name=label, metric_value=values[key])
        for key, label in FIGURES.items()
        if key in values
    ]
    more: dict[str, Any] = {"model_name": name, "eval_results": measured} if measured else {}
    card = package.ModelCardData(
        library_name="tangokg",
        license=license or None,
        pipeline_tag="graph-ml",
        tags=[*TAGS, forecaster.config.model],
        **more,
    )
    return str(card.to_yaml()).strip()


def _usage(name: str, facts: bool) -> str:
    if facts:
        return f'import tangokg as tk\n\nforecaster = tk.load("{HUB}{name}")\n'
    return f'import tangokg as tk\n\nforecaster = tk.load("{HUB}{name}", facts="events.csv")  # your dated facts\n'


def _about_facts(facts: bool) -> str:
    if facts:
        return "The facts are part of this repository (`history.parquet`), and so are the names in them (`vocab/`)."
    return (
        "The facts are **not** part of this repository. A forecast needs them, because every answer follows from what "
        "happened before: give those that the model was trained on, or of the same names and times. The names of all "
        "entities and relations are part of it (`vocab/`)."
    )


def _data(forecaster: Forecaster) -> str:
    dataset = forecaster.dataset
    clock, vocab = dataset.clock, dataset.vocab
    rows = [
        [name, f"{len(part):,}", *(clock.format(float(end(part.t))) for end in (min, max))]
        for name, part in dataset.parts.items()
        if len(part)
    ]
    sizes = f"{vocab.num_entities:,} entities, {vocab.num_relations:,} relations; time in steps of one {clock.unit}."
    return f"{sizes}\n\n{_table(('part', 'facts', 'first', 'last'), rows)}"


def _figures(metrics: Mapping[str, Any]) -> str:
    parts = [(part, metrics[part]["time-aware"]) for part in ("valid", "test") if part in metrics]
    if not parts:
        return "This run was not measured."
    rows = [[part, *(f"{values[key]:.2f}" for key in FIGURES)] for part, values in parts]
    mark = metrics.get("not_comparable")
    note = f"\n\n**Not comparable**: {_cell(str(mark))}." if mark else ""
    return f"Single step ahead, time-aware filter, in per cent.\n\n{_table(('part', *FIGURES.values()), rows)}{note}"


def _calibration(reliability: Mapping[str, Any]) -> str:
    """Chances beside what happened on the test part."""
    paragraphs = []
    for kind, meaning in KINDS.items():
        if summary := reliability.get(kind):
            rows = [[f"{b['said']:.1%}", f"{b['happened']:.1%}", f"{b['answers']:,}"] for b in summary["bins"]]
            figures = f"Brier score {summary['brier']:.4f} (base rate {summary['base_brier']:.4f}), "
            figures += f"calibration error {100 * summary['calibration_error']:.1f} points."
            paragraphs.append(f"Chance that {meaning}: {figures}\n\n{_table(('said', 'happened', 'answers'), rows)}")
    return "\n\n".join(paragraphs) or "The chances were not compared with what happened."


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(map(_cell, line))} |" for line in lines)


def _cell(text: str) -> str:
    """A text that does not end its cell or its line."""
    return harmless_line(text).replace("|", "\\|")
