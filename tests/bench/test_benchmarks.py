"""Every benchmark gives a result of the one form; what they compare computes the same."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch

from conftest import make_dataset
from tangokg.bench import BENCHMARKS, growth, observing, ranking, step, twin
from tangokg.bench.form import KEYS
from tangokg.bench.material import USUAL, draw_events
from tangokg.cli import main
from tangokg.errors import TrainingError
from tangokg.snapshots.windows import windows_at

SMALL = ("dim=4", "history=2")
TINY: dict[str, dict[str, Any]] = {
    "step": {"settings": SMALL, "repeats": 2, "snapshots": 3},
    "twin": {"settings": (*SMALL, "precision=64-true", "identity=true", "transition=0.5"), "windows": 2, "repeats": 1},
    "growth": {"settings": SMALL, "facts": 20, "axes": "entities,history,facts", "repeats": 1},
    "gradients": {"settings": SMALL, "facts": 20, "entities": 50, "most_steps": 2, "repeats": 1},
    "evaluate": {"settings": SMALL, "repeats": 1},
    "observe": {"model": "tango-distmult", "settings": SMALL, "repeats": 2},
    "load": {},  # starts processes; its parts have tests of their own
}


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (step, twin, ranking, observing):
        monkeypatch.setattr(module, "read_set", lambda _: make_dataset())
    monkeypatch.setattr(growth, "AXES", {"entities": (40, 20_000), "history": (1, 3), "facts": (1, 2)})


@cache
def measured(name: str) -> tuple[dict[str, Any], list[tuple[int, int]]]:
    """The result, and what was told of the progress (done, total)."""
    seen: list[tuple[int, int]] = []
    return BENCHMARKS[name].measure(**TINY[name], tell=lambda what, done, total: seen.append((done, total))), seen


def test_every_benchmark_has_tiny_parameters() -> None:
    assert set(TINY) == set(BENCHMARKS)


@pytest.mark.parametrize("name", [name for name in TINY if TINY[name]])
def test_results_are_of_one_form(name: str) -> None:
    result, seen = measured(name)
    assert tuple(result) == KEYS
    assert result["benchmark"] == name
    assert len({tuple(row) for row in result["rows"]}) == 1
    assert seen == sorted(seen)
    assert all(done < total for done, total in seen)
    assert json.loads(json.dumps(result)) == result


@pytest.mark.parametrize("name", BENCHMARKS)
def test_everything_can_be_left_out(name: str) -> None:
    assert all(default is not None or "None" in str(kind) for kind, default in BENCHMARKS[name].parameters().values())


def test_the_twin_computes_the_same() -> None:
    figures = measured("twin")[0]["figures"]
    assert figures["difference_of_states"] < 1e-13
    assert figures["difference_of_gradients"] < 1e-12


def test_a_twin_that_computes_something_else_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    right = twin.dense_states
    monkeypatch.setattr(twin, "dense_states", lambda *asked: 1.01 * right(*asked))
    with pytest.raises(TrainingError, match="states of encoder and twin differ by 0"):
        twin.measure(**TINY["twin"])


def test_gradients_agree_as_far_as_their_methods_go() -> None:
    rows = measured("gradients")[0]["rows"]
    assert [(row["steps"], row["gradient"]) for row in rows[:3]] == [(1, "direct"), (1, "adjoint"), (1, "irdm")]
    assert all(row["error_in_float64"] == 0 for row in rows if row["gradient"] == "direct")
    assert all(row["error"] < 1e-2 for row in rows)


def test_backward_reaches_the_rows_that_were_taken() -> None:
    """The gradient at the edge that growth measures to is that of the embeddings, at the touched rows."""
    case = growth._Case("entities", 100, "tango-distmult", ("dim=4", "history=2"), 20, 100, torch.device("cpu"))
    states = case.model.encode(case.timeline, windows_at(case.timeline, case.target), case.masks).states
    edge = growth.rows_edge(states.touched, case.model.entities)
    (at_edge,) = torch.autograd.grad(states.touched.sum(), [edge], retain_graph=True)
    (whole,) = torch.autograd.grad(states.touched.sum(), [case.model.entities])
    assert torch.equal(whole.index_select(0, states.block.entity), at_edge)
    assert int(whole.count_nonzero(dim=1).count_nonzero()) <= len(states.block.entity) < len(whole)


def test_drawn_events_are_the_same_up_to_the_ids() -> None:
    few, many = (draw_events(30, 3, n, names=50) for n in (50, 5000))
    assert torch.equal(few.s * 100, many.s)
    assert torch.equal(few.offset, many.offset)
    assert many.num_entities == 5000
    assert len(few.change_s)


def test_the_usual_settings_are_those_of_the_sets() -> None:
    assert set(USUAL) == {"ICEWS18", "ICEWS05-15", "WIKI", "YAGO"}


# The command


def test_the_command_measures_writes_and_prints(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "twin.json"
    words = ["--set", "dim=4", "--set", "repeats=1", "--set", "history=1", "--out", str(out), "--device", "cpu"]
    assert main(["bench", "twin", *words]) == 0
    printed = capsys.readouterr()
    assert "forward and backward" in printed.out
    assert "The result is in" in printed.err
    result = json.loads(out.read_text())
    assert (result["asked"]["dim"], result["asked"]["repeats"], result["asked"]["settings"]) == (
        4,
        1,
        ["dim=4", "history=1"],
    )


def test_benchmarks_are_listed_with_their_parameters(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "--list", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert set(listed) == set(BENCHMARKS)
    assert listed["growth"]["facts"] == 300
    assert main(["bench"]) == 0
    assert "queries ranked a second" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["twinn"], "unknown benchmark 'twinn'. Did you mean twin?"),
        (["growth", "--data", "YAGO"], "--data YAGO: bench growth has no such choice"),
        (["twin", "--set", "repeat=3"], "unknown setting 'repeat'. Did you mean repeats?"),
        (["twin", "--set", "repeats=many"], "--set: repeats must be int, found 'many'"),
        (["twin", "--set", "repeats=0"], "--set: repeats must be at least 1, found 0"),
        (["growth", "--set", "axes=entities,size"], "unknown axis 'size'; choose from entities, history"),
        (["load", "--set", "dim=3"], "unknown setting 'dim'"),
        (["evaluate", "--set", "split=train"], "unknown split 'train'; choose one of valid, test"),
        (["step", "--model", "frequency"], "frequency has no encoder to measure"),
        (["--page", "nowhere"], "nowhere: no such folder"),
    ],
)
def test_what_cannot_be_measured_is_told(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", *words]) == 2
    assert message in capsys.readouterr().err
