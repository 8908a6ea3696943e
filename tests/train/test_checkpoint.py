"""Files of tensors are written whole or not at all, and damaged ones are named."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from tangokg.errors import RunError
from tangokg.train import Progress
from tangokg.train.checkpoint import load_tensors, pack, save_tensors, unpack, write_atomically


def test_tensors_of_every_kind_come_back(tmp_path: Path) -> None:
    tensors = {
        "double": torch.randn(3, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).T,
        "bool": torch.tensor([True, False]),
        "empty": torch.zeros(0, 4),
        "scalar": torch.tensor(3.5),
        "bytes": torch.Generator().get_state(),
    }
    path = tmp_path / "x.safetensors"
    save_tensors(path, tensors, {"epoch": 3, "name": "ü"})
    found, note = load_tensors(path)
    assert note == {"epoch": 3, "name": "ü"}
    assert found.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert torch.equal(found[name], tensor)
        assert found[name].dtype == tensor.dtype


@pytest.mark.parametrize("where", ["fsync", "replace"])
def test_a_full_disk_leaves_the_old_file_and_nothing_else(
    where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.bin"
    write_atomically(path, b"old")

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, where, full)
    with pytest.raises(RunError, match=r"x\.bin: cannot be written: No space left on device\. Free some space"):
        write_atomically(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_missing_folder_is_an_error_of_ours(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="cannot be written"):
        write_atomically(tmp_path / "none" / "x.bin", b"new")


def test_what_a_kill_left_beside_is_written_over(tmp_path: Path) -> None:
    (tmp_path / "x.bin.tmp").write_bytes(b"half of something much longer than what follows")
    write_atomically(tmp_path / "x.bin", b"new")
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == {"x.bin": b"new"}


def test_every_truncation_and_many_damages_are_errors_that_name_the_file(tmp_path: Path) -> None:
    path = tmp_path / "state.safetensors"
    save_tensors(path, {"a": torch.arange(5.0), "b": torch.ones(2, 3)}, {"epoch": 1})
    whole = path.read_bytes()
    for size in range(0, len(whole), 7):
        path.write_bytes(whole[:size])
        with pytest.raises(RunError, match=r"state\.safetensors: damaged or not of this form.*--overwrite"):
            load_tensors(path)
    for position in range(0, 8 + 60, 3):  # the header, where a flipped byte cannot be a number
        path.write_bytes(whole[:position] + bytes([whole[position] ^ 0xFF]) + whole[position + 1 :])
        with pytest.raises(RunError, match=r"state\.safetensors"):
            load_tensors(path)
    path.unlink()
    with pytest.raises(RunError, match=r"state\.safetensors: no such file"):
        load_tensors(path)


def trained() -> tuple[nn.Module, torch.optim.Optimizer]:
    generator = torch.Generator().manual_seed(0)
    model = nn.Linear(3, 2)
    for p in model.parameters():
        p.data.normal_(generator=generator)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        model(torch.ones(4, 3)).square().sum().backward()
        optimizer.step()
    return model, optimizer


def packed() -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    model, optimizer = trained()
    return pack(model, optimizer, {"g": torch.Generator().manual_seed(5)}, torch.arange(4), {}, Progress(epoch=2))


def test_a_packed_state_goes_on_as_the_one_it_was_taken_from() -> None:
    tensors, note = packed()
    model, optimizer = trained()
    other = nn.Linear(3, 2)
    other_optimizer = torch.optim.Adam(other.parameters(), lr=0.1)
    generator = torch.Generator().manual_seed(9)
    order, best, progress = unpack(tensors, note, other, other_optimizer, {"g": generator})
    assert (order.tolist(), best, progress) == ([0, 1, 2, 3], {}, Progress(epoch=2))
    assert torch.equal(torch.rand(3, generator=generator), torch.rand(3, generator=torch.Generator().manual_seed(5)))
    for m, o in ((model, optimizer), (other, other_optimizer)):
        o.zero_grad()
        m(torch.ones(4, 3)).square().sum().backward()
        o.step()
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), other.parameters(), strict=True))


@pytest.mark.parametrize("missing", ["model.weight", "generator.g", "order", "progress"])
def test_a_state_that_lacks_something_is_refused(missing: str) -> None:
    tensors, note = packed()
    tensors.pop(missing, None)
    note.pop(missing, None)
    model, optimizer = trained()
    with pytest.raises(RunError, match="does not fit this run"):
        unpack(tensors, note, model, optimizer, {"g": torch.Generator()})


def found_with(**progress: Any) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    tensors, note = packed()
    note["progress"] |= progress
    return tensors, note


WRONG: dict[str, Any] = {
    "epoch": ("two", 1.5, None, True, -1),
    "position": (-1, 5, "0", [1]),
    "seconds": ("long", -1.0, float("nan"), None),
    "best_mrr": ("high", float("inf"), None),
    "best_epoch": (9, -1, "2"),
    "log": ({}, 3, [3], [{"epoch": 1}], [{"epoch": 1, "loss": "low", "seconds": 0.1}]),
    "ended": (3, None),
    "unheard": (1, "of"),
}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in WRONG.items() for value in values])
def test_a_note_of_wrong_types_or_an_impossible_place_is_refused(name: str, value: Any) -> None:
    tensors, note = found_with(**{name: value})
    model, optimizer = trained()
    with pytest.raises(RunError, match="does not fit this run"):
        unpack(tensors, note, model, optimizer, {"g": torch.Generator()})


@pytest.mark.parametrize("note", [[], 3, "text", {"progress": 3}, {"progress": [1]}, {"progress": None}])
def test_a_note_of_another_form_is_refused(note: Any, tmp_path: Path) -> None:
    tensors, _ = packed()
    save_tensors(tmp_path / "x.safetensors", tensors, note)
    model, optimizer = trained()
    with pytest.raises(RunError, match=r"does not fit this run|damaged or not of this form"):
        unpack(*load_tensors(tmp_path / "x.safetensors"), model, optimizer, {"g": torch.Generator()})


@pytest.mark.parametrize("name", ["order", "model.weight", "best.weight"])
def test_a_tensor_of_another_type_is_refused(name: str) -> None:
    tensors, note = packed()
    tensors |= {f"best.{key.removeprefix('model.')}": t for key, t in tensors.items() if key.startswith("model.")}
    tensors[name] = tensors[name].double()
    model, optimizer = trained()
    with pytest.raises(RunError, match=r"does not fit this run.*float64"):
        unpack(tensors, note, model, optimizer, {"g": torch.Generator()})
