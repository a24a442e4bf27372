"""One line in the log for an error of ours that stops a crawl at start, where asyncio or Twisted would log a traceback.

Scrapy hands such an error to whoever began the crawl. Nobody asks for it where that is one of Scrapy's commands: then
asyncio logs it when the task is collected, and Twisted when the Deferred is. Only that log changes: the error itself
reaches a caller who does ask, and every other error is logged as ever.
"""

from __future__ import annotations

import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from twisted.internet import defer

from scrapy_robots_rfc.errors import RobotsError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

logger = logging.getLogger(__name__)

# Marks such an error. No weak reference does: those into a cycle of garbage are cleared before it is logged.
_MARK = "_stopped_a_crawl"


@contextmanager
def logged_in_one_line() -> Iterator[None]:
    """Have an error of ours that is raised within logged in one line, if nobody asks for it; its text says all."""
    try:
        yield
    except RobotsError as error:
        error.__dict__[_MARK] = True
        _watch()
        raise


def _watch() -> None:
    logging.getLogger("asyncio").addFilter(_is_other_record)
    twisted_logger: Any = getattr(defer, "log", None)
    observer = getattr(twisted_logger, "observer", None)
    if observer is not None and not isinstance(observer, _Observer):
        twisted_logger.observer = _Observer(observer)


def _is_other_record(record: logging.LogRecord) -> bool:
    """Whether a record of asyncio's is about anything else; ours is logged here."""
    return not (record.exc_info and _logged(record.exc_info[1]))


def _logged(error: BaseException | None) -> bool:
    if _MARK not in getattr(error, "__dict__", ()):
        return False
    logger.error("The crawl does not start: %s", error)
    return True


class _Observer:
    """Between Twisted's Deferreds and its log.

    Of an error that nobody asked for, Twisted logs two events, one right behind the other: a headline, and the failure.

    :param observer: gets all that is not ours.
    """

    def __init__(self, observer: Callable[[dict[str, Any]], None]) -> None:
        self._observer = observer
        self._headlines: list[dict[str, Any]] = []

    def __call__(self, event: dict[str, Any]) -> None:
        """Hold a headline back until its failure is known."""
        failure = event.get("log_failure")
        if failure is None and event.get("isError"):
            self._headlines.append(event)
            return
        events, self._headlines = [*self._headlines, event], []
        if failure is not None and _logged(failure.value):
            del events[-2:]
        for each in events:
            self._observer(each)
