"""Several processes train as one does: gloo on this machine."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from conftest import make_dataset, make_timeline
from processes_run import CASES, DIVIDED, config_of, dataset_of, start, train_case
from tangokg.errors import TrainingError
from tangokg.models import MODELS
from tangokg.shards import LOST
from tangokg.snapshots.windows import queries_at, windows_at
from tangokg.train.devices import make_fabric
from tangokg.train.dividing import divide
from tangokg.train.loop import fit
from tangokg.train.material import build_model
from tangokg.train.processes import Group, _meeting_place
from tangokg.train.settings import TrainSettings

PATIENCE = 600  # seconds, on a machine that may be busy


def _draws(case: str) -> bool:
    """Whether the loss draws something beside dropout, such as wrong answers, so that processes draw others."""
    timeline, target = make_timeline(), torch.tensor([4, 6])
    model = build_model(config_of(case), timeline).train()
    model.settle(timeline)
    asked = timeline, windows_at(timeline, target), queries_at(timeline, target)
    losses = [float(model(*asked, torch.Generator().manual_seed(seed)).detach()) for seed in (1, 2)]
    return losses[0] != losses[1]


def _learns(case: str) -> bool:
    return any(True for _ in build_model(config_of(case), make_timeline()).parameters())


SAME = [
    case
    for case, (name, _, _) in CASES.items()
    if case not in DIVIDED and _learns(case) and name != "tango-authors" and not _draws(case)
]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Weights and logs of two processes."""
    folder = tmp_path_factory.mktemp("processes")
    for process in start(folder, *SAME, *DIVIDED):
        _, errors = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0, errors
    return folder


@pytest.mark.parametrize("case", [*SAME, *DIVIDED])
def test_two_processes_give_the_weights_of_one(trained: Path, case: str) -> None:
    weights, progress = train_case(case)
    same_weights(load_file(trained / f"{case}.safetensors"), weights)
    log = json.loads((trained / f"{case}.json").read_text())
    for mine, theirs in zip(progress.log, log, strict=True):
        for name in ("loss", "valid_mrr"):
            assert theirs[name] == pytest.approx(mine[name], rel=1e-6), name


def test_processes_end_early_at_the_epoch_at_which_one_does(trained: Path) -> None:
    _, progress = train_case("patience")
    assert progress.ended == "patience"
    assert len(json.loads((trained / "patience.json").read_text())) == progress.epoch < 20


def test_a_request_to_one_process_stops_all_and_the_run_resumes(trained: Path) -> None:
    config = config_of("tango", epochs=4)
    resumed, progress = fit(dataset_of("tango"), config, trained / "stopped", resume=True)
    assert (progress.epoch, len(progress.log)) == (4, 4)
    same_weights(resumed.state_dict(), train_case("tango", epochs=4)[0])


def same_weights(found: Mapping[str, torch.Tensor], expected: Mapping[str, torch.Tensor]) -> None:
    assert found.keys() == expected.keys()
    for name, tensor in found.items():
        torch.testing.assert_close(tensor, expected[name], rtol=1e-6, atol=1e-6, msg=name)


def test_most_models_are_among_them() -> None:
    assert {"tango", "tango-tucker", "tango-distmult", "horizons", "parts", "conve"} < set(SAME)
    assert len(set(SAME) & set(MODELS)) > 7


@pytest.mark.parametrize("case", ["tango", pytest.param("divided tango", marks=pytest.mark.slow)])
def test_a_process_that_is_killed_ends_the_others_with_a_message_and_the_run_resumes(tmp_path: Path, case: str) -> None:
    """The run goes on in one process, which has all weights again."""
    first, second = start(tmp_path, "die", case)
    _, errors = first.communicate(timeout=PATIENCE)
    second.communicate(timeout=PATIENCE)
    assert second.returncode == -9, errors
    assert first.returncode == 1
    assert LOST in errors
    config = config_of(case, checkpoint_seconds=0.0, epochs=4)
    resumed, progress = fit(dataset_of(case), config, tmp_path / "checkpoint", resume=True)
    whole, _ = train_case(case, epochs=4)
    assert progress.epoch == 4
    same_weights(resumed.state_dict(), whole)


def test_every_model_with_tables_to_divide_is_tested_with_them() -> None:
    divided = {name for name in MODELS if build_model(config_of(name), make_timeline()).divided}
    assert divided == {name for name, _, _ in DIVIDED.values()}


@pytest.mark.parametrize(
    ("case", "more", "size", "message"),
    [
        ("compgcn", {}, 2, "the entities of compgcn cannot be divided"),
        ("tango", {"precision": "16-mixed"}, 2, "found precision 16-mixed"),
        ("tango", {}, 13, "13 processes cannot divide 12 entities"),
    ],
)
def test_what_cannot_be_divided_says_so(case: str, more: dict[str, Any], size: int, message: str) -> None:
    config = config_of(case, shard_entities=True, **more)
    with pytest.raises(TrainingError, match=f"shard_entities: {message}"):
        divide(build_model(config, make_timeline()), Group(0, size), config)


def test_a_model_that_cannot_be_divided_says_so() -> None:
    with pytest.raises(TrainingError, match="tango-authors cannot be trained by several processes"):
        fit(make_dataset(1), config_of("tango-authors"), group=Group(0, 2))


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_every_row_is_taken_once_and_the_weights_add_up(size: int) -> None:
    groups = [Group(rank, size) for rank in range(size)]
    for count in (1, 2, 3, 7):
        rows = [torch.arange(count)[group.share(count)] for group in groups]
        weights = [group.weight(count, len(own), count) for group, own in zip(groups, rows, strict=True)]
        total = torch.zeros(count).double()
        for own, weight in zip(rows, weights, strict=True):
            total[own] += weight / len(own)
        torch.testing.assert_close(total, torch.full((count,), 1 / count, dtype=torch.float64))


def test_a_process_has_one_device_under_slurm_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "srun").write_text("#!/bin/sh\n")
    (tmp_path / "srun").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert make_fabric(TrainSettings(device="cpu")).world_size == 1
        for name, value in (("NTASKS", "4"), ("PROCID", "1"), ("LOCALID", "1"), ("NODEID", "0"), ("JOB_NAME", "job")):
            monkeypatch.setenv(f"SLURM_{name}", value)
        fabric = make_fabric(TrainSettings(device="cpu"))
    assert (fabric.world_size, fabric.global_rank) == (1, 0)


def test_tasks_of_a_step_of_slurm_meet_and_other_steps_do_not_disturb_them() -> None:
    """Also with --ntasks, and in a step that has some of the job's nodes."""
    job = {"SLURM_JOB_ID": "4711", "SLURM_NTASKS": "2", "SLURM_JOB_NODELIST": "gpu[01-04]"}
    steps = [job | {"SLURM_STEP_ID": str(step), "SLURM_STEP_NODELIST": "gpu[03-04]"} for step in range(9)]
    places = [_meeting_place(step) for step in steps]
    assert {place["MASTER_ADDR"] for place in places} == {"gpu03"}
    assert _meeting_place(job)["MASTER_ADDR"] == "gpu01"
    assert len({place["MASTER_PORT"] for place in places}) == len(places)
    assert all(1024 < int(place["MASTER_PORT"]) < 32_768 for place in places)
