"""What each of several processes does in the tests: trains models, and the first one keeps what came out.

python processes_run.py FOLDER [CASE ...]      in the environment of torchrun
python processes_run.py FOLDER die CASE
"""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from conftest import facts_like, make_dataset, make_vocab
from tangokg.models import MODELS
from tangokg.quads.values import Dataset, concatenate
from tangokg.train import Interrupted, Progress, RunConfig, TrainSettings
from tangokg.train.loop import fit
from tangokg.train.processes import ALONE, Group, joined
from tangokg.train.stopping import STOPPED

SMALL = {"dim": 5, "width": 8, "history": 3, "step_time": 0.4, "dropout": 0.0, "pair_dropout": 0.0, "newcomers": 0.0}
CASES: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    **{name: (name, {}, {}) for name in MODELS},
    "horizons": ("tango", {}, {"horizons": 3}),
    "parts": ("tango", {}, {"score_memory": 1e-6}),
    "conve": ("tango-distmult", {"decoder": "conve"}, {}),
    "patience": ("tango-distmult", {}, {"patience": 1, "epochs": 20, "learning_rate": 0.2}),
}
PARTS = {"score_memory": 1e-6}
DIVIDED: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {  # the entities are divided, not the windows
    "divided tango": ("tango", {}, PARTS),
    "divided tango-tucker": ("tango-tucker", {}, PARTS),
    "divided tango-distmult": ("tango-distmult", {"static": True, "normalise": True}, {}),
    "divided with noise": ("tango", {"dropout": 0.3, "pair_dropout": 0.3, "newcomers": 0.2, "ode": True}, {}),
}
CASES |= {case: (name, own, {"shard_entities": True} | more) for case, (name, own, more) in DIVIDED.items()}


def config_of(case: str, **train: Any) -> RunConfig:
    name, settings, more = CASES[case]
    own = MODELS[name].settings
    values = {key: value for key, value in SMALL.items() if hasattr(own, key)} | settings
    usual: dict[str, Any] = {
        "epochs": 2,
        "batch_windows": 4,
        "precision": "64-true",
        "device": "cpu",
        "learning_rate": 0.01,
    }
    return RunConfig(name, replace(own, **values), TrainSettings(**(usual | more | train)), seed=5)


def dataset_of(case: str) -> Dataset:
    dataset = make_dataset(1, 10)
    return one_more(dataset) if case in DIVIDED else dataset


def one_more(dataset: Dataset) -> Dataset:
    """With one entity more, which has facts, so that two processes have different numbers of entities."""
    train, new = dataset.train, dataset.vocab.num_entities
    vocab = make_vocab(new + 1)
    first, last = int(train.t.min()), int(train.t.max())
    more = facts_like(train, [(new, 0, 3, first), (2, 1, new, last), (new, 2, 5, last)])
    train = concatenate([replace(train, vocab=vocab), replace(more, vocab=vocab)])
    return replace(dataset, train=train, **{n: replace(getattr(dataset, n), vocab=vocab) for n in ("valid", "test")})


def train_case(case: str, group: Group = ALONE, **more: Any) -> tuple[dict[str, torch.Tensor], Progress]:
    model, progress = fit(dataset_of(case), config_of(case, **more), group=group)
    return {name: tensor.contiguous() for name, tensor in model.state_dict().items()}, progress


def free_port() -> int:
    """A port that is free, of those that a system gives to nobody who has not asked for it by number."""
    for port in random.SystemRandom().sample(range(20_000, 30_000), 100):
        with socket.socket() as one, suppress(OSError):
            one.bind(("127.0.0.1", port))
            return port
    raise OSError("no free port among a hundred")


def start(folder: Path, *words: str, size: int = 2) -> list[subprocess.Popen[str]]:
    """Processes that form a group, as torchrun starts them."""
    source = Path(__file__).resolve()
    path = os.pathsep.join([str(source.parent), *filter(None, [os.environ.get("PYTHONPATH")])])
    place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": str(size), "PYTHONPATH": path}
    place |= {"TORCHELASTIC_RUN_ID": "test", "GROUP_RANK": "0", "LOCAL_WORLD_SIZE": str(size)}
    return [
        subprocess.Popen(
            [sys.executable, str(source), str(folder), *words],
            env=os.environ | place | {"RANK": str(rank), "LOCAL_RANK": str(rank)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(size)
    ]


def main(folder: Path, cases: list[str]) -> None:
    torch.set_num_threads(1)
    with joined() as group:
        for case in cases:
            weights, progress = train_case(case, group)
            if group.first:
                save_file(weights, folder / f"{case}.safetensors")
                (folder / f"{case}.json").write_text(json.dumps(progress.log))
        stop_training(folder, group)


def stop_training(folder: Path, group: Group) -> None:
    """The second process is asked to stop within an epoch; both end at the same step, with a checkpoint."""

    def stop(progress: Progress) -> str:
        return STOPPED if group.rank == 1 and progress.epoch == 1 and progress.position else ""

    with suppress(Interrupted):
        fit(dataset_of("tango"), config_of("tango", epochs=4), folder / "stopped", stop=stop, group=group)
        raise AssertionError("training was not stopped")


def die_in_training(folder: Path, case: str) -> None:
    """The second process is killed within an epoch; the first must end with a clear message."""
    torch.set_num_threads(1)
    with joined() as group:

        def stop(progress: Progress) -> str:
            if group.rank == 1 and progress.epoch == 1 and progress.position:
                os.kill(os.getpid(), signal.SIGKILL)
            return ""

        config = config_of(case, checkpoint_seconds=0.0, epochs=4)
        fit(dataset_of(case), config, folder / "checkpoint", stop=stop, group=group)


if __name__ == "__main__":
    if sys.argv[2:3] == ["die"]:
        die_in_training(Path(sys.argv[1]), sys.argv[3])
    else:
        main(Path(sys.argv[1]), sys.argv[2:])
