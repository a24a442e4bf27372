"""The results of the demo, counted from the log of its web."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from demo.server import Asked
    from fleet.web import Host

_ROBOTS = "/robots.txt"
_WIDTH = 16  # of the first column
_MAX_NAMED = 5  # sites that are named; the others are counted


@dataclass(frozen=True, slots=True)
class Killed:
    """The worker that was killed.

    :param after: seconds from the first request until it was killed.
    :param unsaved: the hosts whose robots.txt was not in the store at that time.
    """

    worker: str
    after: float
    unsaved: frozenset[str]


@dataclass(frozen=True, slots=True)
class Finding:
    """One result.

    :param is_ok: whether the result is as expected.
    """

    title: str
    is_ok: bool
    texts: Sequence[str]

    def lines(self) -> Iterator[str]:
        """Yield the lines to print."""
        for number, text in enumerate(self.texts):
            yield f"{'' if number else self.title:<{_WIDTH}}{text}"


@dataclass(frozen=True, slots=True)
class Findings:
    """All results.

    :param hosts: the sites of the web.
    :param asked: the log of the web.
    :param workers: the names of all workers.
    :param killed: the worker that was killed, or ``None``.
    :param stats: the sums of the stats of the other workers.
    """

    hosts: Sequence[Host]
    asked: Sequence[Asked]
    workers: Sequence[str]
    killed: Killed | None = None
    stats: Mapping[str, int] = field(default_factory=dict)

    def all(self) -> list[Finding]:
        """Return all results, in the order in which they are printed."""
        return [
            self.pages(),
            self.allowed(),
            self.fetches(),
            self.intervals(),
            self.disallowed(),
            self.store(),
        ]

    @property
    def is_ok(self) -> bool:
        """Whether all results are as expected."""
        return all(finding.is_ok for finding in self.all())

    def lines(self) -> Iterator[str]:
        """Yield the lines to print."""
        times = [asked.time for asked in self.asked]
        seconds = max(times) - min(times) if times else 0.0
        yield f"{len(times):,} requests in {seconds:.1f} s, counted by the web"
        for finding in self.all():
            yield ""
            yield from finding.lines()
        yield ""
        wrong = [finding.title for finding in self.all() if not finding.is_ok]
        yield f"NOT as expected: {', '.join(wrong)}" if wrong else "All results are as expected."

    def pages(self) -> Finding:
        """Count the pages of each worker. Every worker that was not killed fetches some."""
        counts = Counter(_worker(asked) for asked in self.asked if not _is_robots(asked))
        texts = []
        is_ok = True
        for name in self.workers:
            text = f"worker {name}  {counts[name]:>6,}"
            if self.killed is not None and name == self.killed.worker:
                text += f"  killed (kill -9) {self.killed.after:.1f} s after the first request"
            elif not counts[name]:
                is_ok = False
            texts.append(text)
        return Finding("pages fetched", is_ok, texts)

    def allowed(self) -> Finding:
        """Count the allowed pages. Pages are missing only if a worker was killed."""
        fetched = {asked.target for asked in self.asked}
        allowed = [url for host in self.hosts for url in host.urls if not host.disallows(url)]
        missing = sum(url not in fetched for url in allowed)
        texts = [f"{len(allowed) - missing:,} of {len(allowed):,} allowed pages were fetched"]
        if missing and self.killed is not None:
            worker = self.killed.worker
            texts.append(f"worker {worker} held the other {missing:,}, or the links to them")
        return Finding("allowed", not missing or self.killed is not None, texts)

    def fetches(self) -> Finding:
        """Count the requests for robots.txt.

        A file is requested once. It is requested again if the worker that requested it was killed
        before it could store the file.
        """
        by_host: dict[str, list[Asked]] = defaultdict(list)
        for asked in self.asked:
            if _is_robots(asked):
                by_host[_host(asked)].append(asked)
        once = sum(len(requests) == 1 for requests in by_host.values())
        never = len(self.hosts) - len(by_host)
        text = f"requested once at {once:,} of {len(self.hosts):,} sites"
        if never:
            text += f"; never at {never:,}, whose first pages were lost with the killed worker"
        texts = [text]
        wrong = []
        for name, requests in by_host.items():
            if len(requests) > 1 and self._is_taken_over(name, requests):
                texts.append(f"twice at {name}: {_taken_over(*requests)}")
            elif len(requests) > 1:
                wrong.append(f"WRONG: {len(requests)} times at {name}")
        texts += wrong[:_MAX_NAMED]
        if len(wrong) > _MAX_NAMED:
            texts.append(f"WRONG: more than once at {len(wrong) - _MAX_NAMED:,} other sites")
        is_ok = not wrong and (not never or self.killed is not None)
        return Finding("robots.txt", is_ok, texts)

    def _is_taken_over(self, name: str, requests: list[Asked]) -> bool:
        killed = self.killed
        if killed is None or len(requests) != 2:
            return False
        return name in killed.unsaved and _worker(requests[0]) == killed.worker

    def intervals(self) -> Finding:
        """Find the shortest interval at each site that has a Crawl-delay."""
        texts = []
        is_ok = True
        for host in self.hosts:
            if not host.interval:
                continue
            requests = sorted(
                (asked for asked in self.asked if _host(asked) == host.name),
                key=lambda asked: asked.time,
            )
            gaps = (after.time - before.time for before, after in pairwise(requests))
            shortest = min(gaps, default=host.interval)
            is_ok = is_ok and shortest >= host.interval
            workers = len({_worker(asked) for asked in requests})
            texts.append(
                f"{host.name} asks for {host.interval:g} s: at least {shortest:.3f} s between"
                f" {len(requests)} requests of {workers} worker{'' if workers == 1 else 's'}"
            )
        return Finding("Crawl-delay", is_ok, texts)

    def disallowed(self) -> Finding:
        """Count the disallowed pages that were fetched."""
        fetched = {asked.target for asked in self.asked}
        disallowed = [url for host in self.hosts for url in host.urls if host.disallows(url)]
        wrong = sum(url in fetched for url in disallowed)
        text = f"{wrong:,} of {len(disallowed):,} disallowed pages were fetched"
        return Finding("disallowed", not wrong, [text])

    def store(self) -> Finding:
        """Read the stats of the workers about the store, which must have no errors."""
        hits = self.stats.get("robotstxt/cache/store_hits", 0)
        waits = self.stats.get("robotstxt/cache/lease_waits", 0)
        errors = self.stats.get("robotstxt/cache/store_errors", 0)
        text = f"{hits:,} look-ups found a file, {waits:,} waited for the fetch of another worker"
        if errors:
            text += f", {errors:,} calls FAILED"
        return Finding("store", not errors, [text])


def _is_robots(asked: Asked) -> bool:
    return asked.target.endswith(_ROBOTS)


def _worker(asked: Asked) -> str:
    return asked.headers.get("X-Worker", "?")


def _host(asked: Asked) -> str:
    return asked.target.split("/")[2]


def _taken_over(first: Asked, second: Asked) -> str:
    seconds = second.time - first.time
    return (
        f"worker {_worker(first)} was killed before the answer, and worker {_worker(second)} took"
        f" over {seconds:.1f} s later"
    )
