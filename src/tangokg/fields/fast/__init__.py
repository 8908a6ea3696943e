"""Everything about the derivative that exists for speed alone. To understand the model, read ``fields/derivative.py``.

- ``recorded.py``: a field with its gradient written out, for one evaluation and for the steps of a fixed grid;
- ``forms.py``: the sums of messages, on a CPU (relations gathered once for an interval) and on a GPU (fused);
- ``pieces.py``: the formulas of the layers and of their gradients in torch, ``kernels.py`` the same in Triton;
- ``captured.py``: a training step as CUDA graphs, replayed for blocks of one size.

``TangoField.fast()`` is the only way in. The tests compare both forms with the readable one in float64, value and
gradient, over layers, masks and switches, and the kernels with ``pieces.py`` (``tests/fields``); captured steps are
compared with plain ones on a GPU (``tests/models/test_captured.py``).
"""

from __future__ import annotations

from tangokg.fields.fast.forms import Fused, Gathered
from tangokg.fields.fast.pieces import add_products, serves
from tangokg.fields.fast.recorded import FastField

__all__ = ["FastField", "Fused", "Gathered", "add_products", "serves"]
