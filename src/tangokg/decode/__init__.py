"""z(t) + queries -> scores of all candidates."""

from __future__ import annotations

from tangokg.decode.decoders import ConvTransE, Decoder, DistMult, TuckER
from tangokg.decode.states import States

DECODERS: dict[str, type[Decoder]] = {"distmult": DistMult, "tucker": TuckER, "convtranse": ConvTransE}

__all__ = ["DECODERS", "ConvTransE", "Decoder", "DistMult", "States", "TuckER"]
