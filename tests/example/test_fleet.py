"""`make fleet-demo`: real worker processes share one queue, one store and one pace, and one of
them is killed.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from email.message import Message
from typing import TYPE_CHECKING

import pytest
import redis

from demo.server import Asked, Reply
from fleet.__main__ import main
from fleet.findings import Findings, Killed
from fleet.processes import Worker, redis_server
from fleet.spider import FleetSpider
from fleet.web import SLOW_SITE, Home, homes, seeds, serve
from tests.support.documents import block
from tests.support.example_project import PROJECT, ROOT

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.once

SECONDS = ("--seconds", "150")  # that a demo may take
# Seconds until a demo that hangs fails its test; it takes thirty, and on a busy machine longer.
TIMEOUT = 200


def fleet(*arguments: str, path: str | None = None) -> subprocess.CompletedProcess[str]:
    """Run the demo in a process of its own."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)} | ({} if path is None else {"PATH": path})
    return subprocess.run(
        [sys.executable, "-m", "fleet", *SECONDS, *arguments],
        cwd=PROJECT,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )


def fleet_here(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    """Run the demo in the process of the tests, which starts the same workers.

    Return the exit code.
    """
    monkeypatch.setattr(sys, "argv", ["fleet", *SECONDS, *arguments])
    before = signal.getsignal(signal.SIGTERM)
    try:
        return main()
    finally:
        signal.signal(signal.SIGTERM, before)


@pytest.fixture(scope="module")
def demo(redis_installed: None) -> subprocess.CompletedProcess[str]:
    """The demo as everybody runs it, with fewer sites and a worker less.

    Two are left when one is killed.
    """
    return fleet("--sites", "30", "--workers", "3")


def kinds(text: str) -> set[str]:
    """The lines of the demo's end, less their first column, numbers, and what is not always
    there.
    """
    lines = [
        re.sub(r"; never .*| workers?$", "", line[16:])
        for line in text.splitlines()
        if re.match(r".{15} \S", line)
    ]
    return {" ".join(re.sub(r"[\d,.]+", "N", line).split()) for line in lines}


def test_the_document_shows_the_demo(demo: subprocess.CompletedProcess[str]) -> None:
    """The lines that docs/scaling.md shows are lines that the demo prints, but for their
    numbers.
    """
    excerpt = block("docs/scaling.md", "text", "pages fetched ")
    assert len(kinds(excerpt)) == 9
    assert kinds(excerpt) <= kinds(demo.stdout)


def test_the_demo(demo: subprocess.CompletedProcess[str]) -> None:
    """Many sites, one of the workers killed.

    One fetch a file, paces obeyed, nothing disallowed fetched.
    """
    done = demo
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    pages = {
        name: int(count)
        for name, count in re.findall(r"^.{16}worker (\d)  +(\d+)", done.stdout, re.MULTILINE)
    }
    [(killed, taken_over)] = re.findall(
        r"twice at slow\.example: worker (\d) was killed while it waited for the answer, and worker"
        r" (\d) took over",
        done.stdout,
    )
    assert set(pages) == {"1", "2", "3"}
    assert all(count > 0 for name, count in pages.items() if name != killed)
    assert taken_over != killed
    once = re.search(r"asked for once at (\d+) of 30 sites", done.stdout)
    assert once is not None
    assert int(once[1]) > 15  # the others were in the hands of the worker that was killed
    paces = re.findall(
        r"asks for 0\.5 s: ([\d.]+) s at least between \d+ requests by (\d) worker", done.stdout
    )
    assert len(paces) == 2
    assert all(float(interval) >= 0.5 for interval, _ in paces)
    assert (
        max(int(workers) for _, workers in paces) > 1
    )  # else no worker obeyed another one's interval
    closed = sum(home.closes(home.url(target)) for home in homes(30) for target in home.targets)
    assert f"0 of {closed} disallowed pages were fetched" in done.stdout
    assert done.stdout.endswith("\nAll is as it should be.\n")


@pytest.mark.usefixtures("redis_installed")
def test_nothing_is_lost_where_nobody_is_killed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """All allowed pages are fetched, and each robots.txt once."""
    code = fleet_here(monkeypatch, "--spare", "--sites", "10", "--workers", "2")
    printed = capsys.readouterr()
    assert code == 0, printed.out + printed.err
    assert "asked for once at 10 of 10 sites" in printed.out
    allowed = sum(
        not home.closes(home.url(target)) for home in homes(10) for target in home.targets
    )
    assert f"{allowed} of {allowed} allowed pages were fetched" in printed.out


@pytest.mark.usefixtures("redis_installed")
def test_the_demo_is_bounded_in_time(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A demo that has no time left says what it waited for, and ends all that it started.

    Four workers.
    """
    assert fleet_here(monkeypatch, "--seconds", "0", "--sites", "10") == 1
    printed = capsys.readouterr()
    assert printed.out.startswith("10 made-up sites, 4 worker processes, ")
    assert printed.err.startswith("python -m fleet: there is no more time to wait for ")


def test_without_redis_server(tmp_path: Path) -> None:
    """Where redis-server is missing, one line says so, and how it is installed."""
    done = fleet(path=str(tmp_path))
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.startswith(
        "python -m fleet: this demo needs redis-server, which is not installed: `apt install "
    )
    assert done.stderr.count("\n") == 1


@pytest.mark.usefixtures("redis_installed")
def test_a_worker_that_is_stopped_loses_nothing(tmp_path: Path) -> None:
    """What waits for a robots.txt when its worker is stopped goes back into the queue, and
    another one fetches it.
    """
    hanging = Home("hanging.example", Reply(body=b"", delay=1000))
    answering = Home("hanging.example", Reply(body=b""), closed=None)
    with redis_server(tmp_path) as address, redis.Redis.from_url(address) as client:
        client.rpush(FleetSpider.redis_key, *(hanging.url(target) for target in hanging.targets))
        site = serve([hanging])
        first = Worker.start("1", tmp_path, address=address, web=site.url())
        try:
            until(lambda: hanging.url("/robots.txt") in site.log, first)
            until(lambda: client.llen(FleetSpider.redis_key) == 0, first)
            first.process.terminate()
            assert first.process.wait(TIMEOUT) == 0, first.last_words
        finally:
            first.kill()
            site.stop()
        assert client.llen("fleet:requests") == len(hanging.targets), first.last_words
        site = serve([answering])
        second = Worker.start("2", tmp_path, address=address, web=site.url())
        client.rpush(
            FleetSpider.redis_key, answering.url("/robots.txt")
        )  # it waits for a first one
        try:
            assert second.process.wait(TIMEOUT) == 0, second.last_words
        finally:
            second.kill()
            site.stop()
        assert set(answering.targets) <= {
            target.removeprefix(answering.origin) for target in site.log
        }


def until(ready: Callable[[], bool], worker: Worker) -> None:
    """Wait for something that a worker does."""
    give_up = time.monotonic() + TIMEOUT
    while not ready():
        assert worker.running, worker.last_words
        assert time.monotonic() < give_up, worker.last_words
        with contextlib.suppress(subprocess.TimeoutExpired):
            worker.process.wait(0.02)


# What the demo says at the end, of logs that are made up: each finding can be a bad one.

WEB = homes(5)
PACED, OPEN = WEB[0], WEB[3]
BOTH = ("1", "2")


def log(*lines: tuple[float, str, str]) -> list[Asked]:
    """Return a log: times, workers, URLs."""
    made = []
    for arrived, worker, url in lines:
        headers = Message()
        headers["X-Worker"] = worker
        made.append(Asked(url, arrived, headers))
    return made


def complete() -> list[tuple[float, str, str]]:
    """Return a crawl of the web without a fault, by two workers."""
    lines = []
    for home in WEB:
        free = [target for target in home.targets if not home.closes(home.url(target))]
        for number, target in enumerate(["/robots.txt", *free]):
            lines.append((number * 0.5, "12"[number % 2], home.url(target)))
    return lines


def test_a_crawl_without_fault() -> None:
    """Where everything is right, every finding says so, and so does the last line."""
    findings = Findings(WEB, log(*complete()), BOTH)
    assert findings.fine
    assert [*findings.lines()][-1] == "All is as it should be."


@pytest.mark.parametrize(
    ("title", "more"),
    [
        ("robots.txt", (9.0, "2", OPEN.url("/robots.txt"))),
        ("Crawl-delay", (6.9, "2", PACED.url("/"))),
        ("disallowed", (9.0, "2", OPEN.url("/private/plan.html"))),
    ],
)
def test_a_fault(title: str, more: tuple[float, str, str]) -> None:
    """A second fetch, a request too early and a disallowed page are found, and named at the end."""
    findings = Findings(WEB, log(*complete(), more), BOTH)
    assert [finding.title for finding in findings.all() if not finding.fine] == [title]
    assert [*findings.lines()][-1] == f"NOT as it should be: {title}"


def test_what_was_left_out() -> None:
    """A worker that did nothing, a page and a robots.txt that no worker fetched are faults where
    none was killed.
    """
    lines = [
        line
        for line in complete()
        if line[2] not in (OPEN.url("/robots.txt"), OPEN.url("/page-1.html"))
    ]
    findings = Findings(WEB, log(*lines), (*BOTH, "3"))
    assert [finding.title for finding in findings.all() if not finding.fine] == [
        "pages fetched",
        "allowed",
        "robots.txt",
    ]


def test_what_a_killed_worker_leaves() -> None:
    """A second fetch is right only where the killed worker asked first, and the store never
    heard of the answer.
    """
    lines = [*complete(), (9.0, "2", OPEN.url("/robots.txt"))]

    def fine(worker: str, *unsaved: str) -> bool:
        killed = Killed(worker, 1.0, frozenset(unsaved))
        return Findings(WEB, log(*lines), BOTH, killed).fetches().fine

    assert fine("1", OPEN.name)
    assert not fine("2", OPEN.name)
    assert not fine("1", PACED.name)


def test_seeds() -> None:
    """The crawl begins with each site's front page, and with all pages of the paced ones, far
    from each other.
    """
    sites = homes(300)
    found = seeds(sites)
    assert set(found) == {home.url() for home in sites} | {
        home.url(target) for home in sites if home.interval for target in home.targets
    }
    assert len(found) == len(set(found))
    assert 80 < found.index(SLOW_SITE.url()) < 150
    paced = [number for number, url in enumerate(found) if "paced-1" in url]
    assert max(paced) > 100
    assert isinstance(sites[0], Home)
