"""z(t) + queries -> scores of all candidates."""

from __future__ import annotations

from typing import Any

import torch

from tangokg.config import update
from tangokg.decode.conve import ConvE, ConvEDecoding
from tangokg.decode.decoders import ConvTransE, ConvTransEDecoding, Decoder, DistMult, TuckER, TuckERDecoding
from tangokg.decode.settings import Decoding, check_settings, check_sizes_and_rates
from tangokg.decode.states import States
from tangokg.errors import ConfigError

DECODERS: dict[str, type[Decoder]] = {"distmult": DistMult, "tucker": TuckER, "convtranse": ConvTransE, "conve": ConvE}


def make_decoding(settings: Any) -> Decoding:
    """Every setting of the decoder of a model: the model's ``dropout``, then what its ``decoding`` says."""
    name = settings.decoder
    if name not in DECODERS:
        raise ConfigError(f"decoder {name!r} is unknown; choose one of {', '.join(DECODERS)}.")
    return update(DECODERS[name].settings(settings.dropout), settings.decoding, f"decoding ({name})")


def make_decoder(settings: Any, dim: int, generator: torch.Generator) -> Decoder:
    """The decoder of a model, for states of this size."""
    return DECODERS[settings.decoder](make_decoding(settings), dim, generator)


__all__ = [
    "DECODERS",
    "ConvE",
    "ConvEDecoding",
    "ConvTransE",
    "ConvTransEDecoding",
    "Decoder",
    "Decoding",
    "DistMult",
    "States",
    "TuckER",
    "TuckERDecoding",
    "check_settings",
    "check_sizes_and_rates",
    "make_decoder",
    "make_decoding",
]
