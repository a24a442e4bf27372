"""The events of a crawl, which its processes write to files and its servers keep in memory."""

import json
from collections.abc import Iterator
from math import inf
from pathlib import Path
from typing import NamedTuple

#: The files of events, one for each process.
EVENTS = "events-{}"
#: Seconds between two measurements of how late an event loop is, and the shortest recorded delay.
BEAT, LAG = 0.05, 0.01


class Event(NamedTuple):
    """An event. Times are monotonic, and processes of one machine share this clock.

    :param kind: of the servers, "asked" (for robots.txt), "known" (the client may now know an
        answer) or "page". Of the crawl, "pushed", "duplicate", "popping", "popped", "disallowed",
        "fetched", "failed", "asked to end", "closed" or "killed". Of both, "lag".
    :param process: 0 for the first process, 1 for the one that resumes the crawl, and so on.
    :param number: of a request that the spider yielded.
    :param detail: an answer, a reason or the class of an exception.
    :param seconds: the delay of an event loop.
    """

    time: float
    kind: str
    process: int = 0
    number: int | None = None
    site: int | None = None
    path: str = ""
    proxy: str = ""
    detail: str = ""
    seconds: float = 0.0


class Log(NamedTuple):
    """The events of a crawl, in order.

    :param errors: the standard error of its processes.
    :param code: the exit code of the last process.
    """

    events: list[Event]
    errors: str
    code: int

    def of(self, *kinds: str, site: int | None = None, until: float = inf) -> Iterator[Event]:
        """Yield the events of these kinds before a time, for a site or for all sites."""
        events = (event for event in self.events if event.kind in kinds and event.time < until)
        return (event for event in events if site in (None, event.site))

    def lag(self, since: float, until: float) -> float:
        """Return the seconds by which event loops were late between two times."""
        lags = (lag for lag in self.of("lag") if lag.time >= since)
        return sum(lag.seconds for lag in lags if lag.time - lag.seconds <= until)


def read_events(folder: Path) -> list[Event]:
    """Read the events of all processes. A killed one may have written half a line at the end."""
    files = folder.glob(EVENTS.format("*"))
    lines = [line for file in files for line in file.read_text(encoding="utf-8").splitlines()]
    return [Event(*json.loads(line)) for line in lines if line.endswith("]")]
