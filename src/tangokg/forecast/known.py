"""What a forecaster knows, and the part of it that is relevant for a question."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tangokg.history.index import HistoryIndex
from tangokg.history.series import edges_about
from tangokg.models import Model
from tangokg.models.protocol import Sight
from tangokg.quads.values import Ids
from tangokg.snapshots.timeline import Timeline
from tangokg.snapshots.windows import Windows
from tangokg.train.devices import device_of

SHARE = 0.25  # of all edges: if the subjects asked about have more, the whole history is sorted, once for all


@dataclass(frozen=True, eq=False)
class Around:
    """The part of a history relevant for questions about some subjects."""

    subjects: Ids
    timeline: Timeline


@dataclass(frozen=True, eq=False)
class Known:
    """A model and a history, with a cache of the parts that the last questions used."""

    model: Model
    index: HistoryIndex

    @property
    def device(self) -> torch.device:
        return device_of(self.model)

    @property
    def num_entities(self) -> int:
        return self.index.vocab.num_entities

    @property
    def num_relations(self) -> int:
        return self.index.vocab.num_relations

    def windows(self, t: Tensor) -> Windows:
        """Windows at some steps, which know all before them; on the device of the model."""
        known, device = torch.searchsorted(self.index.times, t), self.device
        return Windows(known.to(device), t.to(device))

    def history_of(self, s: Tensor) -> Timeline:
        """The history that matters for some subjects, on the host; all of it if they have many edges."""
        subjects = np.unique(s.cpu().numpy())
        kept: Around | None = self._kept.get("around")
        if kept is None or not np.isin(subjects, kept.subjects).all():
            if self.index.rows_of(subjects) > SHARE * self.index.num_edges:
                return self._whole
            kept = self._kept["around"] = Around(subjects, self.index.around(subjects))
        return kept.timeline

    def history_of_pairs(self, pair: Tensor) -> Timeline:
        """The timeline that tells when pairs s * 2R + r had facts; for part of a history, only the edges about them."""
        history = self.history_of(pair // (2 * self.num_relations))
        if not history.is_part:
            return history
        distinct = torch.unique(pair)
        key = id(history), distinct.numpy().tobytes()
        kept: tuple[Timeline, Timeline] = self._keep(
            "pairs", key, lambda: (history, history.only(edges_about(history, distinct)))
        )
        return kept[1]

    def encode(self, windows: Windows, s: Tensor) -> Any:
        """The model's encoding of some windows, for questions about some subjects only."""
        sight, device = self.model.sight(), self.device
        past = (windows.known_on_host < len(self.index.t)).any()
        if sight is None or (sight.totals and past):
            return self.model.encode(self.whole(), windows)
        history = self._moved(self.history_of(s), device)
        if not sight.snapshots:
            return self.model.encode(history, windows)
        tensors = [*self.model.parameters(), *self.model.buffers()]
        weights = tuple((tensor.data_ptr(), tensor._version) for tensor in tensors)
        key = windows.known_on_host.tobytes(), windows.t.cpu().numpy().tobytes(), weights
        return self.model.look_at(self._keep("encoded", key, lambda: self._encode(windows, sight)), history)

    def _encode(self, windows: Windows, sight: Sight) -> Any:
        first = np.maximum(windows.known_on_host - sight.snapshots, 0)
        ranges = [np.arange(*ends) for ends in zip(first, windows.known_on_host, strict=True)]
        snapshots = np.unique(np.concatenate(ranges))
        return self.model.encode(self.index.window(snapshots).to(self.device), windows)

    def whole(self) -> Timeline:
        """The whole history, on the device of the model."""
        return self._moved(self._whole, self.device)

    @cached_property
    def _whole(self) -> Timeline:
        return self.index.whole()

    def _moved(self, timeline: Timeline, device: torch.device) -> Timeline:
        moved: Timeline = self._keep("moved", (timeline, device), lambda: timeline.to(device))
        return moved

    def _keep(self, name: str, key: Any, make: Callable[[], Any]) -> Any:
        """The result of ``make``, cached until another key is requested."""
        last = self._kept.get(name)
        if last is None or last[0] != key:
            last = self._kept[name] = key, make()
        return last[1]

    @cached_property
    def _kept(self) -> dict[str, Any]:
        return {}
