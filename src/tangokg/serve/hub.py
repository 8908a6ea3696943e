"""Publishes events to all listeners: server-sent events."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from typing import Any

WAITING = 100  # events that one listener may be behind; a slower one loses the oldest
QUIET = 15.0  # seconds of silence after which a comment keeps the connection alive


class Hub:
    """The listeners of one event loop; any thread may publish events."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._queues: set[asyncio.Queue[str | None]] = set()
        self._moved = asyncio.Event()

    def open(self) -> None:
        self._loop = asyncio.get_running_loop()

    def close(self) -> None:
        """End all streams; safe from any thread."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._tell, [None])

    @property
    def listeners(self) -> int:
        return len(self._queues)

    def publish(self, events: list[dict[str, Any]]) -> None:
        """Send events to all listeners; safe from any thread."""
        if self._loop is not None and not self._loop.is_closed():
            texts = [f"data: {json.dumps(event, ensure_ascii=False)}\n\n" for event in events]
            self._loop.call_soon_threadsafe(self._tell, texts)

    def _tell(self, texts: Sequence[str | None]) -> None:
        for queue in self._queues:
            for text in texts:
                _put(queue, text)
        moved, self._moved = self._moved, asyncio.Event()
        moved.set()

    async def next_event(self, seconds: float) -> bool:
        """Wait for the next events, ``seconds`` at most; True if any came."""
        try:
            await asyncio.wait_for(self._moved.wait(), seconds)
        except TimeoutError:
            return False
        return True

    async def listen(self) -> AsyncIterator[str]:
        """The stream of one listener."""
        queue: asyncio.Queue[str | None] = asyncio.Queue(WAITING)
        self._queues.add(queue)
        try:
            yield ": listening\n\n"
            while True:
                try:
                    text = await asyncio.wait_for(queue.get(), QUIET)
                except TimeoutError:
                    text = ": still here\n\n"
                if text is None:
                    return
                yield text
        finally:
            self._queues.discard(queue)


def _put(queue: asyncio.Queue[str | None], text: str | None) -> None:
    if queue.full():
        queue.get_nowait()
    queue.put_nowait(text)
