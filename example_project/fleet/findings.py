"""What became of the demo, by the log of its web: who fetched what, and whether that was as it
should be.

It counts, and makes the closing lines. One of these is what the workers say of themselves, which
proves nothing.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from demo.server import Asked
    from fleet.web import Home

_ROBOTS = "/robots.txt"
_WIDTH = 16  # of the first column
_STORE = ("store_hits", "lease_waits", "store_errors")
_FEW = 5  # that many sites are named, of more only the number


@dataclass(frozen=True, slots=True)
class Killed:
    """The worker that was killed.

    :param worker: its name.
    :param after: seconds from the first request to the end.
    :param unsaved: hosts whose robots.txt the store did not have when it died.
    """

    worker: str
    after: float
    unsaved: frozenset[str]


@dataclass(frozen=True, slots=True)
class Finding:
    """A line or two of the end: whether it is as it should be, and what was seen."""

    title: str
    fine: bool
    text: str
    more: tuple[str, ...] = ()

    def lines(self) -> Iterator[str]:
        """Yield it for people."""
        for title, text in ((self.title, self.text), *(("", text) for text in self.more)):
            yield f"{title:<{_WIDTH}}{text}".rstrip()


@dataclass(frozen=True, slots=True)
class Findings:
    """All of it.

    :param homes: the sites of the web.
    :param asked: the web's log.
    :param workers: the names of all workers.
    :param killed: the worker that did not live to the end, if there is one.
    :param counted: the sums of the stats of those that did.
    """

    homes: Sequence[Home]
    asked: Sequence[Asked]
    workers: Sequence[str]
    killed: Killed | None = None
    counted: Mapping[str, int] = field(default_factory=dict)
    _by_host: dict[str, list[Asked]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        by_host: dict[str, list[Asked]] = {home.name: [] for home in self.homes}
        for asked in sorted(self.asked, key=lambda asked: asked.time):
            by_host[asked.target.split("/")[2]].append(asked)
        object.__setattr__(self, "_by_host", by_host)

    def all(self) -> list[Finding]:
        """Return all findings, in the order in which they are printed."""
        return [
            self.pages(),
            self.missing(),
            self.fetches(),
            self.paces(),
            self.trespasses(),
            self.store(),
        ]

    @property
    def fine(self) -> bool:
        """Whether everything is as it should be."""
        return all(finding.fine for finding in self.all())

    def lines(self) -> Iterator[str]:
        """Yield what to print at the end."""
        times = [asked.time for asked in self.asked]
        yield f"{len(times):,} requests in {max(times) - min(times):.1f} s, by the web's own log"
        for finding in self.all():
            yield ""
            yield from finding.lines()
        yield ""
        wrong = [finding.title for finding in self.all() if not finding.fine]
        yield f"NOT as it should be: {', '.join(wrong)}" if wrong else "All is as it should be."

    def pages(self) -> Finding:
        """Who fetched how many pages: each worker that lived did its part."""
        counts = Counter(_worker(asked) for asked in self.asked if not _is_robots(asked))
        killed = self.killed
        lines = [f"worker {name}  {counts[name]:>6,}" for name in self.workers]
        if killed is not None:
            at = self.workers.index(killed.worker)
            lines[at] += (
                f"  killed (kill -9) {killed.after:.1f} s after the first request; the others"
                " went on"
            )
        dead = None if killed is None else killed.worker
        fine = all(counts[name] for name in self.workers if name != dead)
        return Finding("pages fetched", fine, lines[0], tuple(lines[1:]))

    def fetches(self) -> Finding:
        """How often each robots.txt was asked for.

        Once, except for what the killed worker could not share.
        """
        askers = {
            home.name: [_worker(it) for it in self._by_host[home.name] if _is_robots(it)]
            for home in self.homes
        }
        often = {name: workers for name, workers in askers.items() if len(workers) > 1}
        right = [name for name, workers in often.items() if self._had_to_be(name, workers)]
        wrong = [name for name in often if name not in right]
        once = sum(len(workers) == 1 for workers in askers.values())
        never = sum(not workers for workers in askers.values())
        text = f"asked for once at {once:,} of {len(self.homes):,} sites"
        if never:
            text += f"; never at {never:,}, whose first pages died with the killed worker"
        more = [f"twice at {name}: {self._taken_over(name)}" for name in right]
        more += [f"WRONG: {len(often[name])} times at {name}" for name in wrong[:_FEW]]
        more += (
            [f"WRONG: more than once at {len(wrong) - _FEW:,} other sites"]
            if len(wrong) > _FEW
            else []
        )
        return Finding(
            "robots.txt", not wrong and (not never or self.killed is not None), text, tuple(more)
        )

    def _had_to_be(self, name: str, askers: list[str]) -> bool:
        """Whether somebody had to ask again, as the first one was killed before anybody heard of
        the answer.
        """
        killed = self.killed
        return (
            killed is not None
            and name in killed.unsaved
            and askers[0] == killed.worker
            and len(askers) == 2
        )

    def _taken_over(self, name: str) -> str:
        first, second = (asked for asked in self._by_host[name] if _is_robots(asked))
        return (
            f"worker {_worker(first)} was killed while it waited for the answer, "
            f"and worker {_worker(second)} took over {second.time - first.time:.1f} s later"
        )

    def paces(self) -> Finding:
        """The shortest interval at the sites that ask for one."""
        gaps, texts = [], []
        for home in (home for home in self.homes if home.interval):
            asked = self._by_host[home.name]
            gap = min(
                (after.time - before.time for before, after in pairwise(asked)),
                default=home.interval,
            )
            gaps.append(gap >= home.interval)
            workers = len(set(map(_worker, asked)))
            texts.append(
                f"{home.name} asks for {home.interval:g} s: {gap:.3f} s at least between "
                f"{len(asked)} requests by {workers} {'worker' if workers == 1 else 'workers'}"
            )
        return Finding(
            "Crawl-delay",
            all(gaps),
            texts[0] if texts else "no site asks for one",
            tuple(texts[1:]),
        )

    def trespasses(self) -> Finding:
        """Pages that were fetched although their owner closes them."""
        closed = [
            home.url(target)
            for home in self.homes
            for target in home.targets
            if home.closes(home.url(target))
        ]
        found = [asked.target for asked in self.asked if asked.target in set(closed)]
        return Finding(
            "disallowed",
            not found,
            f"{len(found)} of {len(closed):,} disallowed pages were fetched",
        )

    def missing(self) -> Finding:
        """Pages that were never fetched.

        What a killed worker has taken off the queue dies with it.
        """
        fetched = {asked.target for asked in self.asked}
        free = [
            home.url(target)
            for home in self.homes
            for target in home.targets
            if not home.closes(home.url(target))
        ]
        lost = [url for url in free if url not in fetched]
        text = f"{len(free) - len(lost):,} of {len(free):,} allowed pages were fetched"
        if self.killed is None:
            return Finding("allowed", not lost, text)
        more = (
            (
                (
                    f"worker {self.killed.worker} had the other {len(lost)} in its hands, or the"
                    " links to them"
                ),
            )
            if lost
            else ()
        )
        return Finding("allowed", len(lost) < len(free) / 2, text, more)

    def store(self) -> Finding:
        """What the workers say of the store.

        How often it saved them a fetch, and that it never failed.
        """
        hits, waits, errors = (self.counted.get(f"robotstxt/cache/{key}", 0) for key in _STORE)
        text = (
            f"{hits:,} look-ups were answered by the store, {waits:,} waited for another worker's"
            " fetch"
        )
        return Finding("store", not errors, text + (f", {errors:,} calls FAILED" if errors else ""))


def _is_robots(asked: Asked) -> bool:
    return asked.target.endswith(_ROBOTS)


def _worker(asked: Asked) -> str:
    return asked.headers.get("X-Worker", "?")
