"""Push a run to a repository on Hugging Face: its folder, by default without facts, and a model card."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tangokg.config import read_toml, to_toml
from tangokg.errors import RunError
from tangokg.forecast.loading import BEGIN, FACTS, FILES, HUB, check_name, hub, hub_reason
from tangokg.forecast.model_card import model_card
from tangokg.forecast.outcome import results
from tangokg.quads.values import Dataset
from tangokg.train import RunFolder
from tangokg.train.checkpoint import write_atomically

if TYPE_CHECKING:
    from tangokg.forecast.forecaster import Forecaster

MAIN = "main"  # the branch used if none is named


def push(forecaster: Forecaster, name: str, private: bool, facts: bool, license: str, revision: str) -> str:
    """See :meth:`Forecaster.push_to_hub`. Facts of an earlier push are deleted unless facts are pushed again."""
    check_name(name)
    package = hub()
    with tempfile.TemporaryDirectory() as place:
        folder = write_shared(forecaster, Path(place) / "run", name, facts, license)
        try:
            api = package.HfApi()
            api.create_repo(name, private=private, exist_ok=True)
            if revision != MAIN:
                api.create_branch(name, branch=revision, exist_ok=True)
            message = f"{forecaster.config.model} on {forecaster.dataset.name}"
            api.upload_folder(
                repo_id=name, folder_path=folder, revision=revision, commit_message=message, delete_patterns=list(FILES)
            )
        except Exception as error:  # the network, a name, access: the package has a class for each
            raise RunError(
                f"{HUB}{name}: cannot be uploaded: {hub_reason(error)}. Check the name, and log in with "
                f"`hf auth login` or $HF_TOKEN."
            ) from None
    return f"{HUB}{name}" + (f"@{revision}" if revision != MAIN else "")


def write_shared(forecaster: Forecaster, folder: Path, name: str, facts: bool, license: str = "") -> Path:
    """Write the folder to upload: a run folder with a model card, and nothing specific to this machine."""
    forecaster.save(folder)
    metrics = _measured(forecaster)
    if metrics:
        RunFolder(folder).save_metrics(metrics)
    if not facts:
        (folder / FACTS).unlink()
        tables = read_toml(folder / "config.toml")
        tables["data"] |= {BEGIN: _begin(forecaster.dataset)}
        write_atomically(folder / "config.toml", to_toml(tables).encode())
    shutil.rmtree(folder / "checkpoint", ignore_errors=True)
    card = model_card(forecaster, name, facts, license, metrics, _reliability(forecaster, metrics))
    (folder / "README.md").write_text(card, encoding="utf-8")
    return folder


def _begin(dataset: Dataset) -> dict[str, int]:
    """The first time of each part; an empty part begins where the next one does."""
    begin = {"after": 1 + max(int(part.t.max(initial=0)) for part in (dataset.train, dataset.valid, dataset.test))}
    for name, part in (("test", dataset.test), ("valid", dataset.valid), ("train", dataset.train)):
        begin = {name: int(part.t.min()) if len(part) else next(iter(begin.values()))} | begin
    return begin


def _measured(forecaster: Forecaster) -> dict[str, Any]:
    """The figures of the run: those in its folder, else measured now; a refitted run cannot be measured again."""
    stored = {} if forecaster.path is None else RunFolder(forecaster.path).metrics()
    return stored if stored or forecaster.exposure.refit else results(forecaster)


def _reliability(forecaster: Forecaster, metrics: dict[str, Any]) -> dict[str, Any]:
    """The calibration of the chances, by kind; empty without a test part."""
    if forecaster.exposure.refit or not len(forecaster.dataset.test):
        reliability: dict[str, Any] = metrics.get("reliability", {})
        return reliability
    return {kind: calibration.to_dict() for kind, calibration in forecaster.calibration().items()}
