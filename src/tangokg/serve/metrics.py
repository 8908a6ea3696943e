"""Figures for Prometheus: those of HTTP, the batches of the model, the journal, and how surprising new facts are."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_fastapi_instrumentator import Instrumentator


class Gauges:
    """All figures of one service."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        options: dict[str, Any] = {"registry": self.registry, "namespace": "tangokg"}
        self.batch = Histogram("batch_size", "Questions answered together", buckets=(1, 2, 4, 8, 16, 32, 64), **options)
        self.position = Gauge("journal_position", "Posts in the journal that every answer knows", **options)
        self.added = Counter("facts_added", "New facts taken", **options)
        self.rank = Histogram("surprise_rank", "Rank of posted facts", buckets=(1, 3, 10, 30, 100, 1000), **options)
        self.said = Counter("said", "Sum of the shares said of judged candidates", **options)
        self.happened = Counter("happened", "Judged candidates that came true: over said, 1 is calibrated", **options)
        self.lag = Histogram("post_lag_seconds", "From the arrival of a post until every answer knows it", **options)
        self.posting = Histogram("post_seconds", "The work on one post, its commit included", **options)

    def watch(self, app: FastAPI) -> None:
        """Count and time the requests of an application by its addresses."""
        Instrumentator(registry=self.registry, excluded_handlers=["/page", "/metrics"]).instrument(app)
