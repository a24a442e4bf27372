"""The requests of one origin in one downloader slot, a part of the queue by origin."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scrapy.pqueues import ScrapyPriorityQueue

    from scrapy_robots_rfc.scheduling.gate import QueuedOrigin
    from scrapy_robots_rfc.scheduling.queue import OriginPriorityQueue


class QueuePart:
    """The requests of one origin in one downloader slot.

    :param key: names it in the scheduler's state, and its folder.
    :param origin: ``None``: no robots.txt decides about its requests, or they are of several
        origins.
    :param mixed: whether they are of several origins: Scrapy's own queue has begun it.
    """

    __slots__ = (
        "_owner",
        "asleep",
        "dirty",
        "key",
        "mixed",
        "origin",
        "priorities",
        "queue",
        "size",
        "slot",
    )

    def __init__(
        self,
        owner: OriginPriorityQueue,
        slot: str,
        key: str,
        origin: QueuedOrigin | None,
        *,
        mixed: bool = False,
    ) -> None:
        self._owner: OriginPriorityQueue = owner
        self.slot: str = slot
        self.key: str = key
        self.origin: QueuedOrigin | None = origin
        self.mixed: bool = mixed
        self.size: int = 0
        self.asleep: bool = False
        self.dirty: bool = False
        self.priorities: list[int] = []
        #: Scrapy's queue; ``None``: it is closed, to be opened again with `priorities`.
        self.queue: ScrapyPriorityQueue | None = None

    def wake(self) -> None:
        """Look at this part again: its next request may go."""
        self._owner.wake(self)
