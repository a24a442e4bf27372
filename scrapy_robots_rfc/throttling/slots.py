"""GatedSlots: lets the requests of downloader slots ask before they start. `_scrapy.py` changes the slots."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from scrapy_robots_rfc._scrapy import downloader_slot

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy import Request
    from scrapy.crawler import Crawler

logger: logging.Logger = logging.getLogger(__name__)


class GatedSlots:
    """Puts gates into slots of the downloader. In such a slot each request asks before it starts.

    :param wait: returns the seconds until a request may start; 0: it starts now; ``None``: `go_on` will be called for
        its slot.
    """

    def __init__(self, crawler: Crawler, wait: Callable[[Request], float | None]) -> None:
        self._crawler, self._wait = crawler, wait
        self._classes: dict[type, type] = {}
        self._behind = 0.0
        self._powerless = False

    def gate(self, key: str) -> tuple[bool, set[Request]] | None:
        """Put the gate into a slot, if it is not there yet. If that is not possible, a warning says so once.

        :param key: the name of the slot.
        :returns: whether the slot was used before; and the requests that are not in its queue: they are under way, are
            about to join the queue, or have just ended (see `sent`). ``None``: the gate was there, or is not possible.
        """
        if self._powerless:
            return None
        slot = downloader_slot(self._crawler, key, used=True)
        try:
            gated = slot is not None and slot.gate(self._classes, self._asked)
        except TypeError as error:
            logger.warning("Crawl-delay is not kept: the slots of this downloader cannot be held (%s)", error)
            slot, gated = None, False
        self._powerless = slot is None
        return (slot.used, slot.under_way) if slot is not None and gated else None

    def sent(self, key: str, request: Request) -> bool:
        """Whether a request of a slot has been sent, and its transfer is not over.

        With asyncio, Scrapy begins a transfer one turn of the event loop after it took the request from the queue, and
        keeps the request in the slot for some turns after its end: within one turn those two look the same.
        """
        slot = downloader_slot(self._crawler, key)
        return slot is not None and slot.sent(request)

    def go_on(self, key: str, behind: float) -> None:
        """Let a slot ask again for the first request of its queue.

        :param behind: seconds that are added to its time if it has to wait, so that others come first.
        """
        slot = downloader_slot(self._crawler, key)
        if slot is not None:
            self._behind = behind
            slot.go_on()
            self._behind = 0.0

    def give_up(self, key: str, wanted: Callable[[Request], bool], error: Exception) -> list[Request]:
        """Let requests fail that stand in the queue of a slot, and return them.

        :param wanted: which of them.
        """
        slot = downloader_slot(self._crawler, key)
        return [] if slot is None else slot.fail(wanted, error)

    def _asked(self, request: Request) -> float | None:
        seconds = self._wait(request)
        return seconds + self._behind if seconds else seconds
