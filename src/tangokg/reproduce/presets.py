"""What is run: one table of presets, from which the files in ``configs/`` follow. A changed preset is one edit here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from tangokg.models import MODELS
from tangokg.quads import KNOWN
from tangokg.reproduce.paper import published

THIN_SEED = 26  # the first whose thinned ICEWS05-15 has as many times as the paper's: 1,589
THINNED = "ICEWS05-15-thinned"
THINNED_COUNTS = {  # of that draw; the paper's stand in paper/statistics.toml
    "train": 146_102,
    "valid": 19_319,
    "test": 17_341,
    "entities": 10_488,
    "relations": 251,
    "times": 1_589,
}
SETS = ("ICEWS05-15", "ICEWS18", "WIKI", "YAGO", "ICEWS14s", "ICEWS14")
MEASURED = SETS[:-1]  # ICEWS14 runs where its test part is present, and nobody waits for it
DECODERS = {"tucker": "TANGO-TuckER", "distmult": "TANGO-DistMult"}
BEST = {"WIKI": "distmult", "YAGO": "distmult"}  # the decoder of the paper's best result; else tucker
ALIKE = {"ICEWS14s": "ICEWS14", THINNED: "ICEWS05-15"}  # takes the paper's settings of another set
BASELINES = {  # the paper's name of each, and ours
    "DistMult": "distmult",
    "TuckER": "tucker",
    "CompGCN": "compgcn",
    "TTransE": "ttranse",
    "TA-DistMult": "ta-distmult",
    "CyGNet": "cygnet",
    "DE-SimplE": "de-simple",
    "TNTComplEx": "tntcomplex",
    "RE-Net": "renet",
}
LOSSES = {"ce": "softmax over the answer as loss", "bce-asked": "binary loss of the asked fact"}  # theirs: 1-N
LOSS = {"tucker": "ce", "compgcn": "bce-asked"}
MORE = {  # where a model departs from the program that the paper compares with
    "compgcn": ("three dropouts of 0.1 instead of 0.3",),
    "ttranse": ("10 drawn negatives instead of 1, and reciprocal relations",),
    "ta-distmult": ("a softmax over all entities instead of one drawn negative",),
    "cygnet": ("one model for both directions, and a time vector that grows over all of training",),
}
YEARS = ("tokens of the year alone",)  # where times are years
COUNTERS = {"Recurrency": "recurrency", "Frequency": "frequency", "Copy last": "copy-last"}  # not in the paper
LARGE = ("ICEWS05-15", "ICEWS18", "WIKI")  # sets on which an epoch takes long
LARGE_STEPS = {"batch_queries": 4096, "learning_rate": 2e-3}
FOURFOLD = "2,048 facts a step instead of 512"  # in both directions, as everywhere
SLOW = {"rate_decay": 1.0, "epochs": 40}  # learns for long: a falling rate would end that
OWN: dict[tuple[str, str], tuple[dict[str, Any], dict[str, Any]]] = {  # settings and training that are not the model's
    ("cygnet", "WIKI"): ({"alpha": 0.7}, {}),  # its authors' values
    ("cygnet", "YAGO"): ({"alpha": 0.7}, {}),
    ("compgcn", "WIKI"): ({"loss": "ce"}, {}),
    **{("renet", data): ({}, LARGE_STEPS) for data in LARGE},  # each step reads all snapshots
    ("renet", "ICEWS18"): ({}, LARGE_STEPS | {"epochs": 15}),
    **{("ttranse", data): ({}, SLOW) for data in LARGE},
    **{("ta-distmult", data): ({}, SLOW | {"learning_rate": 3e-3}) for data in LARGE},
}
HISTORIES = (1, 2, 3, 5, 6, 7)  # beside the usual 4
WINDOWS = (0.001, 0.1, 1.0, 10.0)  # solver time of a whole window, beside the usual
ABLATIONS: dict[str, dict[str, Any]] = {"off": {"ode": False}, "other-graphs": {"graphs": "other"}}
SEEDS = 5  # of the main table, as in the paper; one of the rest

# The paper's form. Its solver time of a step is ours to choose; the identity stays in the derivative.
FORM: dict[str, Any] = {
    "identity": True,
    "reach": 0.0,
    "unseen": "own",
    "newcomers": 0.0,
    "copying": False,
    "solver": "rk4",
    "gradient": "direct",
    "steps": 1,
}
STATIC: tuple[str, ...] = ()  # sets on which the decoder has a static part as well
NORMALISED = ("ICEWS05-15", "ICEWS18", "WIKI", "YAGO")  # sets on which states have one length
STEP_TIME = {"ICEWS05-15": 0.1, "ICEWS18": 0.1, "WIKI": 0.9, "YAGO": 0.9, "ICEWS14": 0.1}
STEPS = {  # windows a step and learning rate, by search on the validation part (docs/tuning.md)
    "ICEWS05-15": (32, 0.002),
    "ICEWS18": (8, 0.002),
    "WIKI": (1, 0.002),
    "YAGO": (1, 0.002),
    "ICEWS14": (6, 0.001),
}
PATIENCE = {"YAGO": 8}  # epochs; elsewhere 4
OURS = {("distmult", "ICEWS18"): {"patience": 8}}  # validation is high after an epoch, falls, and comes back
UNVALIDATED: dict[str, Any] = {"epochs": 20, "patience": 0}  # ICEWS14 has no validation part to stop by

STATIC_PART, TIME_SCALE, NORMALISATION = "static part in the decoder", "time scale", "normalisation"
DIFFERENCES_ON = "ICEWS14s"  # the set on which each difference from the text is measured
TRAINING_RANGE = 303 / 364  # of its days, from the first to the last
UNNORMALISED, WITHOUT_LENGTH = ("WIKI", "YAGO"), "not-normalised"  # where states of one length count most
PRINTED = SETS[:4]  # the paper's own sets that are at hand
PRINTED_EPOCHS = 17  # with DistMult, whose epochs take 20 s on a GPU; validation has levelled off by then
AUTHORS = ("ICEWS14s", "YAGO")  # sets on which the form of the authors' program runs
BY_SEARCH = ("learning rate", "batch of windows")
APART = "ICEWS14"  # its test part is not at hand: runs are made where the file is


@dataclass(frozen=True)
class Experiment:
    """One config: a preset on a data set. ``PRESET/DATA`` names its files in ``configs/`` and ``results/``."""

    preset: str
    data: str
    row: str  # the paper's name of the model
    model: str
    settings: Mapping[str, Any]  # where they differ from the model's own, or the form asks for them
    train: Mapping[str, Any]
    seeds: int = 1
    departures: tuple[str, ...] = field(default=())  # from the paper

    @property
    def name(self) -> str:
        return f"{self.preset}/{self.data}"

    @property
    def source(self) -> str:
        """The set that is read, before it is thinned."""
        return self.data.removesuffix("-thinned")

    @property
    def thin(self) -> int | None:
        """The seed by which its times are thinned."""
        return THIN_SEED if self.data == THINNED else None


def best_decoder(data: str) -> str:
    """The decoder of the paper's best result on a set."""
    return BEST.get(data, "tucker")


def paper_settings(data: str, decoder: str) -> dict[str, Any]:
    """The paper's best settings for a set, in its form, with the solver time that is ours."""
    of = ALIKE.get(data, data)
    best = published()["settings"]
    own = {key: best.values[key, of, "value"].value for key in ("dim", "layers", "history", "transition", "dropout")}
    own["transition"] = float(own["transition"])
    own |= {"step_time": STEP_TIME[of], "normalise": of in NORMALISED}
    if own["normalise"] and decoder == "distmult":  # nothing scales its scores; in TuckER a batch normalisation does
        own["length"] = round(own["dim"] ** 0.5, 2)
    static = {"static": True} if of in STATIC else {}
    return {"decoder": decoder} | own | FORM | static


@cache
def experiments() -> dict[str, Experiment]:
    """All experiments by name."""
    return {experiment.name: experiment for experiment in _experiments()}


def _experiments() -> Iterator[Experiment]:
    for decoder in DECODERS:
        for data in (*SETS, THINNED):
            seeds = SEEDS if data in MEASURED else 1
            yield _in_paper_form(data, decoder, "", {}, seeds)
            yield _ours(data, decoder, "", {})
        for data in ("ICEWS05-15", "WIKI"):
            yield _in_paper_form(data, decoder, "-without-transition", {"transition": 0.0})
        for data in AUTHORS:
            yield _authors(data, decoder)
    for length in HISTORIES:
        yield _in_paper_form("ICEWS05-15", "tucker", f"-history-{length}", {"history": length})
    for data in MEASURED:
        decoder = best_decoder(data)
        for variant, changed in ABLATIONS.items():
            yield _in_paper_form(data, decoder, f"-{variant}", changed)
            yield _ours(data, decoder, f"-{variant}", changed)
        for window in WINDOWS:
            lengths = paper_settings(data, decoder)["history"], MODELS[f"tango-{decoder}"].settings.history
            paper, own = ({"step_time": window / history} for history in lengths)
            yield _in_paper_form(data, decoder, f"-window-{window:g}", paper)
            yield _ours(data, decoder, f"-window-{window:g}", own)
        yield _in_paper_form(data, decoder, "-irdm", {"gradient": "irdm"})
    on_irregular_time = {row for row, _, _ in published()["irregular"].values}
    for row, model in (BASELINES | COUNTERS).items():
        for data in (*SETS, *((THINNED,) if row in COUNTERS or row in on_irregular_time else ())):
            settings, own = OWN.get((model, data), ({}, {}))
            soon = {"patience": 4, "rate_decay": 0.5} if data in LARGE and row in BASELINES else {}
            train = {"precision": "tf32", "rate_decay": 1.0} | soon | own | (UNVALIDATED if data == APART else {})
            loss = LOSSES.get(settings.get("loss") or LOSS.get(model, ""))
            found = (loss, FOURFOLD if "batch_queries" in own else None)
            more = MORE.get(model, ()) + (YEARS if model == "ta-distmult" and data in ("WIKI", "YAGO") else ())
            departures = tuple(departure for departure in found if departure) + more
            yield Experiment(f"baseline-{model}", data, row, model, settings, train, 1, departures)
    for variant, difference in differences_measured().items():
        yield _in_paper_form(DIFFERENCES_ON, "tucker", f"-{variant}", difference.settings, train=difference.train)
    for data in UNNORMALISED:
        yield _in_paper_form(data, best_decoder(data), f"-{WITHOUT_LENGTH}", {"normalise": False})
    for data in PRINTED:
        yield _as_printed(data, best_decoder(data))


def _in_paper_form(
    data: str,
    decoder: str,
    variant: str,
    changed: Mapping[str, Any],
    seeds: int = 1,
    train: Mapping[str, Any] | None = None,
) -> Experiment:
    settings = paper_settings(data, decoder) | dict(changed)
    if not settings["normalise"]:
        settings.pop("length", None)  # says nothing there
    departures = departures_of(data, settings)
    name = f"paper-{decoder}{variant}"
    own = train_settings(data) | dict(train or {})
    return Experiment(name, data, DECODERS[decoder], f"tango-{decoder}", settings, own, seeds, departures)


def _as_printed(data: str, decoder: str) -> Experiment:
    """The paper as it is printed: its time scale, states of any length, its gradient; no departure but the search's."""
    changed = {"step_time": paper_step_time(data), "normalise": False, "gradient": "irdm"}
    few = {"epochs": PRINTED_EPOCHS} if decoder == "distmult" else {}
    found = _in_paper_form(data, decoder, "", changed, train=few)
    return replace(found, preset=f"printed-{decoder}")


def train_settings(data: str) -> dict[str, Any]:
    """How the runs on a set are trained."""
    windows, rate = STEPS[ALIKE.get(data, data)]
    how = {"precision": "tf32", "patience": PATIENCE.get(data, 4), "rate_decay": 0.5}
    how |= {"batch_windows": windows, "learning_rate": rate}
    return how | (UNVALIDATED if data == APART else {})


def _ours(data: str, decoder: str, variant: str, changed: dict[str, Any], seeds: int = 1) -> Experiment:
    """The models as ``tango train`` has them; the state is not part of its own derivative."""
    size = {"dim": 300, "layers": 3} if data == "YAGO" else {}
    departures = ("identity", TIME_SCALE, "dropout", "what training never saw", "a long last interval", *BY_SEARCH)
    name, train = f"tango-{decoder}{variant}", train_settings(data) | OURS.get((decoder, data), {})
    return Experiment(name, data, DECODERS[decoder], f"tango-{decoder}", size | changed, train, seeds, departures)


def _authors(data: str, decoder: str) -> Experiment:
    """As the authors' program has it, with the paper's settings; it knows two layers at most."""
    best = paper_settings(data, decoder)
    settings = {key: best[key] for key in ("decoder", "dim", "history", "transition", "dropout")}
    settings |= {"layers": min(2, best["layers"]), "step_time": float(f"{paper_step_time(data):.3g}")}
    settings["static"] = decoder == "distmult"  # which joins the embeddings to the states there
    departures = ("the form of the authors' program",)
    return Experiment(
        f"authors-{decoder}", data, DECODERS[decoder], "tango-authors", settings, train_settings(data), 1, departures
    )


@dataclass(frozen=True)
class Difference:
    """One place where the paper's text is read or followed otherwise: what is changed to see its effect."""

    about: str
    settings: Mapping[str, Any]
    train: Mapping[str, Any] = field(default_factory=dict)


def differences_measured() -> dict[str, Difference]:
    """Each difference by the end of its preset's name, as a change of the paper form with TuckER on ICEWS14s."""
    own = paper_settings(DIFFERENCES_ON, "tucker")
    step, static = own["step_time"], own.get("static", False)
    return {
        "without-identity": Difference("the state is not part of its own derivative", {"identity": False}),
        "time-of-paper": Difference("the paper's time scale", {"step_time": paper_step_time(DIFFERENCES_ON)}),
        "time-of-whole-range": Difference(
            "time scaled by the range of all parts, not of the training part", {"step_time": step * TRAINING_RANGE}
        ),
        "normalised": Difference("states of length 1", {"normalise": True}),
        "transition-of-next": Difference("the transition of the next interval", {"transition_of": "next"}),
        "without-static" if static else "static": Difference(
            f"{'no' if static else 'a'} static part in the decoder", {"static": not static}
        ),
        "dropout-0.5": Difference("dropout 0.5 instead of 0.3", {"dropout": 0.5}),
        "one-window": Difference("one window a step", {}, {"batch_windows": 1}),
        "irdm": Difference("the interpolated reverse gradient", {"gradient": "irdm"}),
        "unseen-by-edges": Difference("what training never saw starts from its edges", {"unseen": "edges"}),
    }


def departures_of(data: str, settings: Mapping[str, Any]) -> tuple[str, ...]:
    """In what a paper-form preset departs from the paper, by the names that are allowed."""
    static = (STATIC_PART,) if settings.get("static") else ()
    normalised = (NORMALISATION,) if settings["normalise"] else ()
    moved = (TIME_SCALE,) if settings["step_time"] != paper_step_time(data) else ()
    return (*static, *moved, *normalised, *BY_SEARCH)


def paper_step_time(data: str) -> float:
    """The solver time of one step in the paper."""
    return paper_scale(data) / paper_steps(data)


def paper_scale(data: str) -> float:
    """The solver time that the paper gives to the whole range of a set."""
    return float(published()["settings"].values["scale", ALIKE.get(data, data), "value"].value)


def paper_steps(data: str) -> int:
    """How many observed times the range of a set has, less one."""
    counted = published()["statistics"].get(data, "times", "count")
    return (int(counted.value) if counted else KNOWN[data].timestamps) - 1
