"""What each of several processes does in the tests: trains models, and the first one keeps what came out.

python processes_run.py FOLDER [NAME ...]    in the environment of torchrun
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from conftest import make_dataset
from tangokg.models import MODELS
from tangokg.train import Progress, RunConfig, TrainSettings
from tangokg.train.loop import fit
from tangokg.train.processes import ALONE, Group, joined

SMALL = {"dim": 5, "width": 8, "history": 3, "step_time": 0.4, "dropout": 0.0, "pair_dropout": 0.0, "newcomers": 0.0}
CASES: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    **{name: (name, {}, {}) for name in MODELS},
    "horizons": ("tango", {}, {"horizons": 3}),
    "parts": ("tango", {}, {"score_memory": 1e-6}),
    "conve": ("tango-distmult", {"decoder": "conve"}, {}),
}


def config_of(case: str, **train: Any) -> RunConfig:
    name, settings, more = CASES[case]
    own = MODELS[name].settings
    values = {key: value for key, value in SMALL.items() if hasattr(own, key)} | settings
    usual: dict[str, Any] = {
        "epochs": 3,
        "batch_windows": 4,
        "precision": "64-true",
        "device": "cpu",
        "learning_rate": 0.01,
    }
    return RunConfig(name, replace(own, **values), TrainSettings(**(usual | more | train)), seed=5)


def train_case(case: str, group: Group = ALONE, **more: Any) -> tuple[dict[str, torch.Tensor], Progress]:
    model, progress = fit(make_dataset(1, 10), config_of(case, **more), group=group)
    return {name: tensor.contiguous() for name, tensor in model.state_dict().items()}, progress


def start(folder: Path, *words: str, size: int = 2) -> list[subprocess.Popen[str]]:
    """Processes that form a group, as torchrun starts them."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    source = Path(__file__).resolve()
    path = os.pathsep.join([str(source.parent), *filter(None, [os.environ.get("PYTHONPATH")])])
    place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(size), "PYTHONPATH": path}
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


def die_in_training(folder: Path) -> None:
    """The second process is killed within an epoch; the first must end with a clear message."""
    torch.set_num_threads(1)
    with joined() as group:

        def stop(progress: Progress) -> str:
            if group.rank == 1 and progress.epoch == 1 and progress.position:
                os.kill(os.getpid(), signal.SIGKILL)
            return ""

        config = config_of("tango", checkpoint_seconds=0.0, epochs=4)
        fit(make_dataset(1, 10), config, folder / "checkpoint", stop=stop, group=group)


if __name__ == "__main__":
    if sys.argv[2:] == ["die"]:
        die_in_training(Path(sys.argv[1]))
    else:
        main(Path(sys.argv[1]), sys.argv[2:])
