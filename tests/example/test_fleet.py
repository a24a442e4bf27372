"""`make fleet-demo`: worker processes share a queue, robots.txt files and intervals."""

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
from fleet.web import Host, hosts, serve
from tests.support.documents import block
from tests.support.example_project import PROJECT, ROOT

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.once

TIMEOUT = 250  # seconds; less than the time after which pytest ends a test that hangs


def fleet(*arguments: str, path: str | None = None) -> subprocess.CompletedProcess[str]:
    """Run the demo in a separate process."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)} | ({} if path is None else {"PATH": path})
    return subprocess.run(
        [sys.executable, "-m", "fleet", *arguments],
        cwd=PROJECT,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )


def fleet_here(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    """Run the demo in this process, and return its exit code."""
    monkeypatch.setattr(sys, "argv", ["fleet", *arguments])
    before = signal.getsignal(signal.SIGTERM)
    try:
        return main()
    finally:
        signal.signal(signal.SIGTERM, before)


def kinds(text: str) -> set[str]:
    """Return the lines of the results without titles, numbers, and what is not always printed."""
    lines = [
        re.sub(r"; never .*|workers?$", "", line[16:])
        for line in text.splitlines()
        if line[15:16] == " " and "held the other" not in line and "as expected" not in line
    ]
    return {" ".join(re.sub(r"[\d,.]+", "N", line).split()) for line in lines}


@pytest.mark.usefixtures("redis_installed")
def test_the_demo() -> None:
    """The demo has the results that docs/scaling.md shows, and all are as expected."""
    done = fleet("--sites", "30", "--workers", "3", "--seconds", str(TIMEOUT - 20))
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    assert done.stdout.endswith("\nAll results are as expected.\n")
    shown = kinds(block("docs/scaling.md", "text", "pages fetched "))
    assert len(shown) == 8
    assert shown <= kinds(done.stdout)
    [(killed, taken_over_by)] = re.findall(
        r"twice at slow\.example: worker (\d) was killed .* and worker (\d) took over", done.stdout
    )
    assert taken_over_by != killed
    assert len(re.findall(r"at least [\d.]+ s between \d+ requests of [23] w", done.stdout)) >= 1


@pytest.mark.usefixtures("redis_installed")
def test_demo_without_a_killed_worker(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """All allowed pages are fetched, and each robots.txt is requested once."""
    code = fleet_here(monkeypatch, "--spare", "--sites", "10", "--workers", "2")
    printed = capsys.readouterr()
    assert code == 0, printed.out + printed.err
    assert "requested once at 10 of 10 sites" in printed.out
    allowed = sum(not host.disallows(url) for host in hosts(10) for url in host.urls)
    assert f"{allowed} of {allowed} allowed pages were fetched" in printed.out


@pytest.mark.usefixtures("redis_installed")
def test_time_limit_of_the_demo(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """When the time is over, the demo prints what it counted, and what it waited for."""
    assert fleet_here(monkeypatch, "--seconds", "0", "--sites", "10") == 1
    printed = capsys.readouterr()
    assert printed.out.startswith("10 sites, 4 workers, ")
    assert "\nallowed         0 of " in printed.out
    assert printed.err.startswith("python -m fleet: time is over (--seconds) while waiting for ")


def test_without_redis_server(tmp_path: Path) -> None:
    """If redis-server is missing, one line says how to install it."""
    done = fleet(path=str(tmp_path))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("python -m fleet: the demo needs redis-server, ")
    assert done.stderr.count("\n") == 1


@pytest.mark.usefixtures("redis_installed")
def test_stopped_worker(tmp_path: Path) -> None:
    """Requests of a worker that is stopped go back to the queue, and another worker sends them."""
    hanging = Host("hanging.example", Reply(body=b"", delay=1000))
    answering = Host("hanging.example", Reply(body=b""), disallowed=None)
    with redis_server(tmp_path) as address, redis.Redis.from_url(address) as client:
        client.rpush(FleetSpider.redis_key, *hanging.urls)
        site = serve([hanging])
        first = Worker.start("1", tmp_path, address=address, web=site.url())
        try:
            wait(lambda: hanging.url("/robots.txt") in site.log, first)
            wait(lambda: client.llen(FleetSpider.redis_key) == 0, first)
            first.process.terminate()
            assert first.process.wait(TIMEOUT) == 0, first.end_of_log
        finally:
            first.kill()
            site.stop()
        assert client.llen("fleet:requests") == len(hanging.urls), first.end_of_log
        site = serve([answering])
        second = Worker.start("2", tmp_path, address=address, web=site.url())
        client.rpush(FleetSpider.redis_key, answering.url("/robots.txt"))  # it waits for a URL
        try:
            assert second.process.wait(TIMEOUT) == 0, second.end_of_log
        finally:
            second.kill()
            site.stop()
        assert set(answering.urls) <= set(site.log)


def wait(is_done: Callable[[], bool], worker: Worker) -> None:
    """Wait for an event while a worker runs."""
    deadline = time.monotonic() + TIMEOUT
    while not is_done():
        assert worker.is_running, worker.end_of_log
        assert time.monotonic() < deadline, worker.end_of_log
        with contextlib.suppress(subprocess.TimeoutExpired):
            worker.process.wait(0.02)


# The results of made-up logs.

WEB = hosts(5)
PACED, ORDINARY = WEB[0], WEB[3]
BOTH = ("1", "2")


def log(*lines: tuple[float, str, str]) -> list[Asked]:
    """Return a log with these times, workers and URLs."""
    asked = []
    for arrived, worker, url in lines:
        headers = Message()
        headers["X-Worker"] = worker
        asked.append(Asked(url, arrived, headers))
    return asked


def perfect() -> list[tuple[float, str, str]]:
    """Return a crawl of the web without errors, by two workers."""
    lines = []
    for host in WEB:
        allowed = [url for url in host.urls if not host.disallows(url)]
        for number, url in enumerate([host.url("/robots.txt"), *allowed]):
            lines.append((number * 0.5, "12"[number % 2], url))
    return lines


def wrong(findings: Findings) -> list[str]:
    """Return the titles of the results that are not as expected."""
    return [finding.title for finding in findings.all() if not finding.is_ok]


@pytest.mark.parametrize(
    ("title", "more"),
    [
        ("robots.txt", (9.0, "2", ORDINARY.url("/robots.txt"))),
        ("Crawl-delay", (6.9, "2", PACED.url("/"))),
        ("disallowed", (9.0, "2", ORDINARY.url("/private/plan.html"))),
    ],
)
def test_an_error_is_found(title: str, more: tuple[float, str, str]) -> None:
    """A second fetch, a request that is too early, and a disallowed page are found."""
    assert Findings(WEB, log(*perfect()), BOTH).is_ok
    findings = Findings(WEB, log(*perfect(), more), BOTH)
    assert wrong(findings) == [title]
    assert [*findings.lines()][-1] == f"NOT as expected: {title}"


def test_missing_requests_are_found() -> None:
    """An idle worker, a missing page and a missing robots.txt are found if no worker was killed."""
    missing = (ORDINARY.url("/robots.txt"), ORDINARY.url("/page-1.html"))
    lines = [line for line in perfect() if line[2] not in missing]
    findings = Findings(WEB, log(*lines), (*BOTH, "3"))
    assert wrong(findings) == ["pages fetched", "allowed", "robots.txt"]


def test_second_fetch_after_a_kill() -> None:
    """A second fetch is expected only if the killed worker had not stored the file."""
    lines = [*perfect(), (9.0, "2", ORDINARY.url("/robots.txt"))]

    def is_ok(worker: str, *unsaved: str) -> bool:
        killed = Killed(worker, 1.0, frozenset(unsaved))
        return Findings(WEB, log(*lines), BOTH, killed).fetches().is_ok

    assert is_ok("1", ORDINARY.name)
    assert not is_ok("2", ORDINARY.name)
    assert not is_ok("1", PACED.name)
