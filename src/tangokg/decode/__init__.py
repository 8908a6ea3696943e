"""z(t) + queries -> scores of all candidates."""

from __future__ import annotations

from tangokg.decode.decoders import Decoder, DistMult, TuckER
from tangokg.decode.states import States

DECODERS: dict[str, type[Decoder]] = {"distmult": DistMult, "tucker": TuckER}

__all__ = ["DECODERS", "Decoder", "DistMult", "States", "TuckER"]
