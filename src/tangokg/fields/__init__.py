"""Graph + transition -> dz/dt."""

from __future__ import annotations

from tangokg.fields.derivative import Derivative, TangoField

__all__ = ["Derivative", "TangoField"]
