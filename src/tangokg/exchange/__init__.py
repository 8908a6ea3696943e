"""Facts and models to and from the libraries of others: NetworkX, PyG, PyKEEN, scikit-learn."""

from __future__ import annotations

from tangokg.exchange.estimator import NOT_APPLICABLE, TangoForecaster
from tangokg.exchange.foreign import foreign
from tangokg.exchange.graphs import to_networkx, to_pyg

__all__ = ["NOT_APPLICABLE", "TangoForecaster", "foreign", "to_networkx", "to_pyg"]
