"""Every benchmark gives a result of the one form; what they compare computes the same."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any, get_type_hints

import numpy as np
import pytest
import torch

from conftest import make_dataset
from experiments.__main__ import main
from experiments.bench import (
    BENCHMARKS,
    evaluate,
    grown,
    growth,
    observe,
    parameters,
    read_options,
    regions,
    run_benchmark,
    step,
    twin,
)
from experiments.bench.form import KEYS, Measured, Times, make_result, write
from experiments.bench.material import draw_events
from experiments.bench.page import COLUMNS, blocks_of_speed, read_results, write_plots
from experiments.bench.step import PARTS
from experiments.bench.targets import target_row, targets
from tangokg.errors import TrainingError
from tangokg.rank import examine

CPU = torch.device("cpu")
SMALL = ("dim=4", "history=2")
TINY: dict[str, dict[str, Any]] = {
    "step": {"settings": SMALL, "repeats": 2, "snapshots": 3},
    "twin": {"settings": (*SMALL, "precision=64-true", "identity=true", "transition=0.5"), "windows": 2, "repeats": 1},
    "growth": {"settings": SMALL, "facts": 20, "axes": "entities,history,facts", "repeats": 1},
    "gradients": {"settings": SMALL, "facts": 20, "entities": 50, "most_steps": 2, "repeats": 1},
    "evaluate": {"settings": SMALL, "repeats": 1},
    "observe": {"model": "tango-distmult", "settings": SMALL, "repeats": 2},
    "serve": {"model": "tango-distmult", "settings": SMALL, "clients": 2, "seconds": 3, "warm": 1, "posts": 6},
    "grown": {"settings": SMALL, "most_facts": 4000, "most_entities": 4000, "at_once": 40, "steps": 1, "questions": 30},
    "load": {},  # starts processes; its parts have tests of their own
}


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (step, twin, evaluate, observe):
        monkeypatch.setattr(module, "read_set", lambda _: make_dataset())
    monkeypatch.setattr(grown, "alone", lambda function, **options: (function(**options), 7))  # in this process
    monkeypatch.setattr(regions, "SEEDS", 1)
    monkeypatch.setattr(growth, "AXES", {"entities": (40, 20_000), "history": (1, 3), "facts": (1, 2)})


@cache
def measured(name: str) -> dict[str, Any]:
    return run_benchmark(name, CPU, **TINY[name])


def test_every_benchmark_has_tiny_parameters() -> None:
    assert set(TINY) == set(BENCHMARKS)


SLOW = {"serve": pytest.mark.slow}  # waits for seconds


@pytest.mark.parametrize("name", [pytest.param(name, marks=SLOW.get(name, ())) for name in TINY if TINY[name]])
def test_results_are_of_one_form(name: str) -> None:
    result = measured(name)
    assert tuple(result) == KEYS
    assert result["benchmark"] == name
    assert len({tuple(row) for row in result["rows"]}) == 1
    text = json.dumps(result)
    assert json.dumps(json.loads(text)) == text


@pytest.mark.parametrize("name", BENCHMARKS)
def test_everything_can_be_left_out(name: str) -> None:
    hints = get_type_hints(BENCHMARKS[name].measure)
    for key, default in parameters(name).items():
        assert isinstance(default, tuple if key == "settings" else hints[key]), key


def test_the_twin_computes_the_same() -> None:
    figures = measured("twin")["figures"]
    assert figures["difference_of_states"] < 1e-13
    assert figures["difference_of_gradients"] < 1e-12


def test_a_twin_that_computes_something_else_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    right = twin.dense_states
    monkeypatch.setattr(twin, "dense_states", lambda *inputs: 1.01 * right(*inputs))
    with pytest.raises(TrainingError, match="states of encoder and twin differ by 0"):
        twin.measure(**TINY["twin"], device=CPU)


def test_gradients_agree_as_far_as_their_methods_go() -> None:
    rows = measured("gradients")["rows"]
    assert [(row["steps"], row["gradient"]) for row in rows[:3]] == [(1, "direct"), (1, "adjoint"), (1, "irdm")]
    assert all(row["error_in_float64"] == 0 for row in rows if row["gradient"] == "direct")
    assert all(row["error"] < 1e-2 for row in rows)


def test_backward_reaches_the_rows_that_were_taken() -> None:
    """The gradient that growth measures is that of the embeddings, at the touched rows."""
    case = growth._Case("tango-distmult", ("dim=4", "history=2", "dropout=0.0"), {"facts": 20, "entities": 100}, CPU)
    (at_rows, *_), states = case.back(case.encode()), case.encode().states
    (whole,) = torch.autograd.grad(states.touched.sum(), [case.model.entities])
    assert torch.equal(whole.index_select(0, states.block.entity), at_rows)
    assert int(whole.count_nonzero(dim=1).count_nonzero()) <= len(states.block.entity) < len(whole)


def test_the_slope_of_a_power_is_its_exponent_and_equal_sizes_are_measured_once() -> None:
    rows = [
        {"axis": "facts", "facts": n, "epoch_seconds": n**1.5, "step_seconds": 2.0, "question_seconds": 1 / n}
        for n in (10, 100, 1000)
    ]
    assert grown.slopes(rows) == pytest.approx(
        {"facts_epoch_slope": 1.5, "facts_step_slope": 0.0, "facts_question_slope": -1.0}
    )
    rows = measured("grown")["rows"]
    assert [row["axis"] for row in rows] == ["facts"] * 3 + ["entities"] * 3 + ["both"]
    assert {**rows[1], "axis": "entities"} == rows[3]
    assert all(row["epoch_seconds"] == row["step_seconds"] * row["steps"] for row in rows)
    assert {row["dominates"] for row in rows} <= set(grown.PARTS)


def test_a_rank_that_does_not_count_larger_scores_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    right = examine

    def wrong(*inputs: Any) -> Any:
        metrics = right(*inputs)
        metrics.ranks["raw"].realistic.add_(5)
        return metrics

    monkeypatch.setattr(grown, "examine", wrong)
    with pytest.raises(TrainingError, match="evaluation: rank"):
        grown.measure(**TINY["grown"], only_most=True, device=CPU)


@pytest.mark.parametrize(("entities", "facts"), [(1000, 5000), (5000, 30_000), (5000, 90_000)])
def test_a_grown_world_has_the_facts_and_times_that_were_asked_for(
    entities: int, facts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(regions, "SEEDS", 4)
    dataset = regions.grow_world(entities, facts, 100)
    assert facts * 0.9 <= len(dataset.facts) <= facts
    assert len(dataset.facts) / len(np.unique(dataset.facts.t)) == pytest.approx(100, rel=0.5)
    assert dataset.vocab.num_entities == entities
    assert int(max(dataset.facts.s.max(), dataset.facts.o.max())) < entities
    assert dataset.train.t.max() < dataset.valid.t.min() <= dataset.valid.t.max() < dataset.test.t.min()
    actors = min(regions.ACTORS, entities)
    assert (dataset.facts.s // actors == dataset.facts.o // actors).all()
    again = regions.grow_world(entities, facts, 100).facts
    assert all(np.array_equal(getattr(dataset.facts, column), getattr(again, column)) for column in "srot")


def test_drawn_events_are_the_same_up_to_the_ids() -> None:
    few, many = (draw_events(30, 3, n, names=50) for n in (50, 5000))
    assert torch.equal(few.s * 100, many.s)
    assert torch.equal(few.offset, many.offset)
    assert many.num_entities == 5000
    assert len(few.change_s)


# The command


def test_the_command_measures_writes_and_prints(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "twin.json"
    words = ["--set", "dim=4", "repeats=1", "history=1", "--out", str(out), "--device", "cpu"]
    assert main(["bench", "twin", *words]) == 0
    assert "forward and backward" in capsys.readouterr().out
    options = json.loads(out.read_text())["asked"]
    assert (options["dim"], options["repeats"], options["settings"]) == (4, 1, ["dim=4", "history=1"])


def test_settings_of_every_model_are_options_of_a_benchmark() -> None:
    options = read_options("serve", ["width=128", "train.precision=tf32", "clients=2"])
    assert options == {"settings": ("width=128", "train.precision=tf32"), "clients": 2}


def test_benchmarks_are_listed_with_their_parameters(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench"]) == 0
    listed = capsys.readouterr().out
    assert all(f"{name}: " in listed for name in BENCHMARKS)
    assert "facts=300" in listed


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["twinn"], "unknown benchmark 'twinn'. Did you mean twin?"),
        (["growth", "--data", "YAGO"], "bench growth: unknown setting 'data'"),
        (["twin", "--set", "repeat=3"], "unknown setting 'repeat'. Did you mean repeats?"),
        (["twin", "--set", "repeats=many"], "repeats must be int, at least 1, found 'many'"),
        (["twin", "--set", "repeats=0"], "repeats must be int, at least 1, found 0"),
        (["growth", "--set", "axes=entities,size"], "unknown axis 'size'; choose from entities, history"),
        (["load", "--set", "dim=3"], "unknown setting 'dim'"),
        (["evaluate", "--set", "split=train"], "unknown split 'train'; choose one of valid, test"),
        (["step", "--model", "frequency"], "frequency has no encoder to measure"),
    ],
)
def test_what_cannot_be_measured_is_told(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", *words]) == 2
    assert message in capsys.readouterr().err


# The page


def result(name: str, about: dict[str, Any], figures: dict[str, Any], rows: list[dict[str, Any]]) -> dict[str, Any]:
    return make_result(name, {}, Measured(figures, rows, about), CPU) | {"threads": 2}


def tiny_results() -> list[dict[str, Any]]:
    """One of each, with figures that meet one target and miss another."""
    seconds = Times(0.2, 0.1, 0.3, 3)
    size = {"dim": 200, "layers": 2, "history": 4, "facts": 300, "entities": 1000, "nodes": 3}
    icews = {"data": "ICEWS18", "model": "tango-tucker", "windows": 1, "split": "test"}
    training = {"batch_windows": 2, "precision": "32-true"}
    parts = [{"part": part} | seconds.to_dict() | {"of_floor": 0.4} for part in (*PARTS, "floor")]
    both = seconds.to_dict("forward_seconds") | seconds.to_dict("backward_seconds") | {"step_seconds": None}
    growth = [{"axis": "entities", "value": n} | both for n in (10_000, 1_000_000)]
    errors = {"error": 1e-6, "error_in_float64": 1e-9}
    methods = [(steps, name) for steps in (1, 64) for name in ("direct", "adjoint", "irdm")]
    gradients = [{"steps": n, "gradient": m, "peak_bytes": 10**6 * n} | seconds.to_dict() | errors for n, m in methods]
    twins = {"pass": "forward"} | seconds.to_dict("fast_seconds") | seconds.to_dict("dense_seconds") | {"ratio": 7.0}
    observed = {"observe_seconds": 0.01, "first_seconds": 0.3, "further_seconds": 0.04}
    about = {"data": "ICEWS18", "facts": 468_558, "model": "tango", "new": 10}
    loaded = {"seconds": 20.0, "peak_bytes": 5e9}
    served = {"forecast_p95_seconds": 0.09, "post_p95_seconds": 0.11, "visible_p95_seconds": 0.3}
    served_by = {"data": "ICEWS18", "facts": 7, "model": "tango", "size": "dim 200", "clients": 8, "new": 5}
    sizes = [("facts", 100, 10), ("facts", 1000, 10), ("entities", 100, 10), ("entities", 100, 20), ("both", 9000, 90)]
    names = ("axis", "facts", "entities", "epoch_seconds", "step_seconds", "dominates")
    world = [dict(zip(names, (*place, place[1] / 7, place[2] * 1e-6, "scores"), strict=True)) for place in sizes]
    of_world = {"model": "tango", "dim": 4, "at_once": 300, "steps": 3}
    return [
        result("grown", of_world, {"facts_epoch_slope": 1.0, "entities_epoch_slope": 0.0}, world),
        result("observe", about, observed, [{"what": "new facts taken in"} | seconds.to_dict()]),
        result("step", icews | size | training, {"epoch_seconds": 251.0, "ratio": 1.2, "step_seconds": 0.4}, parts),
        result("twin", icews | size, {"ratio": 7.0}, [twins]),
        result("growth", icews | size, {"entities_forward_ratio": 1.1, "entities_backward_ratio": 1.4}, growth),
        result("gradients", size, {}, gradients),
        result("evaluate", icews, {}, [{"what": "everything", "queries": 7} | seconds.to_dict()]),
        result("serve", served_by, served, [{"what": "a forecast", "count": 9, "p95_seconds": 0.09}]),
        result("load", {"facts": 15_000_000}, loaded, [{"form": "text"} | seconds.to_dict()]),
    ]


def test_every_benchmark_has_a_table() -> None:
    assert set(COLUMNS) == set(BENCHMARKS)
    assert {target["benchmark"] for kind in ("cpu", "cuda") for target in targets(kind)} <= set(BENCHMARKS)


def test_tables_and_figures_are_made_from_results(tmp_path: Path) -> None:
    for made in tiny_results():
        write(made, tmp_path / f"{made['benchmark']}.json")
    texts = {name: make() for name, make in blocks_of_speed(tmp_path).items()}
    assert all(text.count("\n") > 1 for text in texts.values())
    drawn = write_plots(tmp_path / "figures", read_results(tmp_path))
    linked = {f"figures/{path.name}" for path in drawn}
    assert linked == {f"figures/{name}-cpu.png" for name in ("step", "growth", "grown", "gradients")}
    assert all(any(link in text for text in texts.values()) for link in linked)
    assert all(path.stat().st_size > 5000 for path in drawn)


def test_targets_are_met_or_missed_by_every_figure() -> None:
    rows = [target_row(target, tiny_results()) for target in targets("cpu")]
    assert {row[0]: row[-1] for row in rows} == {
        "a training step on ICEWS18 beside its floor": "met",
        "an epoch of ICEWS18, tango-tucker (200, 2 layers)": "**missed**",
        "the dense twin beside the encoder, ICEWS18": "met",
        "the encoder with 10⁶ entities beside 10⁴, forward and backward": "**missed**",
        "15 million facts with integer ids read into snapshots": "met",
        "peak memory of that": "met",
        "ten new facts, ICEWS18": "met",
        "the first forecast after them, ICEWS18": "**missed**",
        "a further forecast, ICEWS18": "met",
        "ten new facts, retrosheet": "",
        "the first forecast after them, retrosheet": "",
        "a further forecast, retrosheet": "",
        "95 % of forecasts, 8 clients at once, posts every second, ICEWS18": "met",
        "95 % of these posts acknowledged": "**missed**",
        "95 % of these posts known to a forecast": "met",
    }
    on_gpu = [target_row(target, tiny_results()) for target in targets("cuda")]
    assert {row[2] for row in on_gpu} == {"not measured"}
