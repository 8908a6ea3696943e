"""What has to be said under a table: what it is, where times come from, departures from the paper, what is missing."""

from __future__ import annotations

from collections import Counter

from tangokg.reproduce.cells import RUN, Table
from tangokg.reproduce.presets import APART, BY_SEARCH, NORMALISATION, TIME_SCALE, experiments, paper_step_time
from tangokg.reproduce.store import Results, fastest

ABOUT = {
    "dynamics": """*As it is* is the preset. *Asked* are its weights without dynamics, or with the graphs of another
    window; *trained* are models that were trained so; *window* x gives a whole window the solver time x. As it is may
    be the mean of several seeds, the others are one.""",
    "distance": """*Distance* is the mean of |h(t) - h(0)| / |h(0)| over the entities with edges in a window, from its
    start to its end; *turn* that of 1 - cos(h(t), h(0)), window by window, which a growth common to all leaves at 0.
    """,
    "irregular": """A window holds the last four snapshots that were observed, however far apart. The table of data sets
    has the counts of this draw beside the paper's.""",
    "multi-step": """The last interval runs from the end of the validation part to each target time. The paper form
    integrates to its end; *ours* stops at the longest gap of training. No figure of a neural ODE is known to us.""",
    "horizon": """In the paper form a step is so long that a week leads beyond what training saw; *ours* stops at the
    longest gap of training (docs/differences.md).""",
}


def notes(table: Table, results: Results) -> list[str]:
    """Each a paragraph."""
    return [
        *([" ".join(ABOUT[table.name].split())] if table.name in ABOUT else []),
        *_devices(table, results),
        *_misprints(table),
        *_departures(table),
        *_of_baselines(table),
        *_missing(table, results),
    ]


def _devices(table: Table, results: Results) -> list[str]:
    """Where times were measured, and which on a slower device than most."""
    timed = {cell.config: cell.metric for cell in table.cells if cell.metric.endswith("seconds")}
    if not timed:
        return []
    of: dict[str, list[str]] = {}
    for config, metric in timed.items():
        for result in fastest(results.of(config), metric):
            of.setdefault(str(result["device"]), []).append(config)
    usual, *others = sorted(of, key=lambda device: -len(of[device])) or ["no run yet"]
    apart = "".join(f"; {', '.join(of[device])}: {device}" for device in others)
    beside = (
        " Ours hold the validation after each epoch. Runs are made side by side, so that each takes longer than by "
        "itself, up to eight times as long: they are bounds, and say nothing of one of our rows against another. Of "
        "several seeds the fastest counts. docs/speed.md has times of runs by themselves."
    )
    return [f"The paper's times are of one GeForce RTX 2080 Ti, ours of {usual}{apart}.{beside}"]


def _misprints(table: Table) -> list[str]:
    if table.paper is None:
        return []
    wrong = {(row, column, p.misprint): None for (row, column, _), p in table.paper.values.items() if p.misprint}
    told = [f"(!) misprint in the paper, {row} on {column}: {why}." for row, column, why in wrong]
    return [*told, *([table.paper.unreadable] if table.paper.unreadable else [])]


def _departures(table: Table) -> list[str]:
    """What the paper form of a table departs in, each once; time scale and normalisation set by set."""
    configs = dict.fromkeys(cell.config for cell in table.cells if cell.form == "paper form")
    of = [experiments()[config] for config in configs]
    of = [e for e in of if e.preset in ("paper-tucker", "paper-distmult")]  # the rows of variants name what they change
    if not of or table.name == "differences":
        return []
    named = dict.fromkeys(departure for experiment in of for departure in experiment.departures)
    steps = {e.data: (e.settings["step_time"], paper_step_time(e.data)) for e in of if TIME_SCALE in e.departures}
    scales = ", ".join(f"{data} {ours:g} for {paper:.1g}" for data, (ours, paper) in steps.items())
    texts = {TIME_SCALE: f"{TIME_SCALE} (solver time of a step, {scales})", BY_SEARCH[0]: f"{BY_SEARCH[0]} and"}
    scaled = dict.fromkeys(e.data for e in of if NORMALISATION in e.departures)
    texts[NORMALISATION] = f"{NORMALISATION} (states of one length, {', '.join(scaled)})"
    found = "by search or single runs on validation (docs/tuning.md, docs/decisions.md)"
    texts[BY_SEARCH[1]] = f"{BY_SEARCH[1]} {found}, as the paper does not say"
    told = "; ".join(texts.get(name, name) for name in named).replace("and; ", "and ")
    return [f"Paper form departs from the paper in: {told}. Its gradients go through the steps of the solver."]


def _of_baselines(table: Table) -> list[str]:
    """What the baselines of a table depart in, beside what the text of each model says."""
    named: dict[tuple[str, str], list[str]] = {}
    of = [experiments()[config] for config in dict.fromkeys(c.config for c in table.cells if c.form == RUN)]
    for experiment in of:
        for departure in experiment.departures:
            named.setdefault((experiment.row, departure), []).append(experiment.data)
    every = Counter(experiment.row for experiment in of)
    where = {key: "" if len(sets) == every[key[0]] else f" ({', '.join(sets)})" for key, sets in named.items()}
    told = "; ".join(f"{row} {departure}{where[row, departure]}" for row, departure in named)
    if not told:
        return []
    return [
        "Baselines take 512 facts a step, each in both directions. From the paper's settings and their authors' "
        f"programs they depart in: {told}. docs/decisions.md says why, the text of each model more."
    ]


def _missing(table: Table, results: Results) -> list[str]:
    """Which experiments are missing, and the commands that make them."""
    lacking = list(dict.fromkeys(cell.config for cell in table.cells if results.value(cell) is None))
    here = [config for config in lacking if not config.endswith(f"/{APART}")]
    told = [
        f"Missing: {_some(here)}. Fill all with `tango reproduce --run --only {table.name}`, one with "
        f"`tango reproduce --run --only {one}`."
        for one in here[:1]
    ]
    apart = (
        f"Missing on {APART}, whose test part is not at hand: `tango data list` says where it is published. Where the "
        f"file is present, `tango reproduce --run --only {APART}` makes the runs."
    )
    return [*told, *([apart] if len(here) < len(lacking) else [])]


def _some(names: list[str], most: int = 6) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
