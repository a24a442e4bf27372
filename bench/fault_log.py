"""The events that servers and processes of a crawl of `bench.faults` record."""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

#: Seconds between two measurements of how late an event loop is, and the shortest recorded delay.
BEAT, LAG = 0.05, 0.01


@dataclass(frozen=True, slots=True)
class Event:
    """An event in a process of the crawl.

    All times are monotonic. Processes of one machine share this clock.

    :param kind: "opened", "yielded", "pushed", "popped", "duplicate", "meddled", "disallowed",
        "left", "fetched", "failed", "asked to end", "closed", "local" (a user's middleware changed
        a robots.txt request), "lag" or "killed".
    :param process: 0 for the first process, 1 for the process that resumes the crawl, and so on.
    :param number: of a request that the spider yielded.
    :param reason: of a decision, or of the close of the spider.
    :param error: class name of the exception in an errback.
    :param seconds: delay of the event loop; for "killed", time of the last save of the queue.
    """

    time: float
    kind: str
    process: int = 0
    number: int | None = None
    site: int | None = None
    path: str = ""
    proxy: str = ""
    exempt: bool = False
    priority: int = 0
    start: bool = False
    slot: str = ""
    reason: str = ""
    error: str = ""
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Seen:
    """A request that a server received.

    :param page: number of the page, or `None` for robots.txt.
    :param exempt: whether robots.txt does not apply to the request.
    :param answer: name of the answer.
    """

    time: float
    site: int
    page: int | None
    exempt: bool = False
    number: int = 0
    answer: str = "page"


@dataclass(frozen=True, slots=True)
class Known:
    """The earliest time when the client may know an answer."""

    time: float
    site: int
    answer: str


@dataclass
class Log:
    """All events of a crawl.

    :param lags: delays of the event loop of the servers.
    :param errors: the standard error of its processes.
    :param code: exit code of the last process, or `None` if it hung.
    """

    seen: list[Seen]
    known: list[Known]
    events: list[Event]
    lags: list[Event] = field(default_factory=list)
    errors: str = ""
    code: int | None = 0

    def __post_init__(self) -> None:
        self.lags = [*self.lags, *self.of("lag")]

    def lag(self, since: float, until: float) -> float:
        """Return the maximum delay of the event loops between two times."""
        return sum(
            lag.seconds
            for lag in self.lags
            if lag.time >= since and lag.time - lag.seconds <= until
        )

    def of(self, *kinds: str) -> Iterable[Event]:
        """Yield the events of these kinds."""
        return (event for event in self.events if event.kind in kinds)


def read_events(path: Path) -> list[Event]:
    """Read the events in a file. A killed process may have written half a line."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return [
        Event(**json.loads(line)) for line in lines if line.startswith("{") and line.endswith("}")
    ]
