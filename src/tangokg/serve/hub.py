"""What happens, told to all who listen: server-sent events."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from typing import Any

WAITING = 100  # events that one listener may be behind; who is slower loses the oldest
QUIET = 15.0  # seconds after which a comment shows that the connection lives


class Hub:
    """Listeners of one event loop; events may come from any thread."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._queues: set[asyncio.Queue[str | None]] = set()
        self._moved = asyncio.Event()

    def open(self) -> None:
        self._loop = asyncio.get_running_loop()

    def close(self) -> None:
        """End all streams; called by any thread."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._tell, [None])

    @property
    def listeners(self) -> int:
        return len(self._queues)

    def publish(self, events: list[dict[str, Any]]) -> None:
        """Tell events to all listeners; called by any thread."""
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
        """Wait for the next events, so long at most; whether some came."""
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
