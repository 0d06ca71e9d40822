"""Which request of this process writes to which upload."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager

from dashboard.errors import UploadLocked

SILENT_AFTER_S = 5.0
"""After this long without a byte, another request for the same upload takes over."""
RELEASE_PATIENCE_S = 10.0


class Claim:
    """Held by the one request that writes to an upload."""

    def __init__(self) -> None:
        self.given_up = False
        self.released = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._heard_at_s = self._loop.time()
        self._deadline: asyncio.Timeout | None = None

    @property
    def silent_s(self) -> float:
        return self._loop.time() - self._heard_at_s

    @asynccontextmanager
    async def patience(self, seconds: float) -> AsyncIterator[None]:
        """Raises TimeoutError when the client is silent for so long, or the claim was given up."""
        if self.given_up:
            raise TimeoutError
        async with asyncio.timeout(seconds) as deadline:
            self._deadline = deadline
            try:
                yield
            finally:
                self._deadline = None
        self._heard_at_s = self._loop.time()

    def give_up(self) -> None:
        self.given_up = True
        if self._deadline is not None and not self._deadline.expired():
            self._deadline.reschedule(self._loop.time())

    def give_up_from_a_thread(self) -> None:
        self._loop.call_soon_threadsafe(self.give_up)


class Claims:
    def __init__(self) -> None:
        self._held: dict[str, Claim] = {}

    async def claim(self, upload_id: str) -> AbstractContextManager[Claim]:
        """Take an upload, from a request that is silent if need be.

        Raises:
            UploadLocked: somebody writes to it.
        """
        if (other := self._held.get(upload_id)) is not None:
            if other.silent_s < SILENT_AFTER_S and not other.given_up:
                raise locked(upload_id)
            other.give_up()
            try:
                await asyncio.wait_for(other.released.wait(), RELEASE_PATIENCE_S)
            except TimeoutError:
                raise locked(upload_id) from None
            if upload_id in self._held:
                raise locked(upload_id)
        claim = self._held[upload_id] = Claim()
        return self._until_released(upload_id, claim)

    def end(self, upload_id: str) -> None:
        """Whoever writes to this upload stops; may be called from any thread."""
        if (claim := self._held.get(upload_id)) is not None:
            claim.give_up_from_a_thread()

    @contextmanager
    def _until_released(self, upload_id: str, claim: Claim) -> Iterator[Claim]:
        try:
            yield claim
        finally:
            del self._held[upload_id]
            claim.released.set()


def locked(upload_id: str) -> UploadLocked:
    return UploadLocked(
        f"Another request brings the bytes of upload {upload_id}.",
        hint="Wait until it has ended, or close the other tab.",
    )
