"""Queues on disk and crawls with JOBDIR whose process was killed."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections import Counter
from typing import TYPE_CHECKING

from tests.support.disk_queues import drained
from tests.support.documents import ROOT
from tests.support.job import STARTED
from tests.support.killed_queue import KINDS, opened
from tests.support.site import PAGE, Asked, Reply, Site, redirect, robots

if TYPE_CHECKING:
    from pathlib import Path


def steps_until_killed(folder: Path, seed: str) -> list[str]:
    """Run the process that pushes and pops, kill it at a random moment, and return its lines."""
    command = [sys.executable, "-m", "tests.support.killed_queue", str(folder), seed]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(random.Random(seed).randrange(100, 600))]
        process.kill()
        return [line.strip() for line in (*lines, *process.stdout) if line.endswith("\n")]


def test_three_kills(tmp_path: Path) -> None:
    """A killed process loses only what it had popped, and nothing comes twice."""
    stored: set[str] = set()
    popped: set[str] = set()
    unknown = 0
    for seed in ("a", "b", "c"):
        step = ""
        for line in steps_until_killed(tmp_path, seed):
            step, _, url = line.partition(" ")
            if step == "push":
                stored.add(url)
            elif step == "popped":
                popped.add(url)
        unknown += step == "pop"  # it may have popped a request without saying which
    left = [url for kind in KINDS for url in drained(opened(tmp_path / kind, kind), 5_000)]
    assert len(stored - popped) > 40
    assert len(left) == len(set(left))
    assert not popped.intersection(left)
    assert len(stored - popped - set(left)) <= unknown
    # A request may be stored without the line that says so.
    assert len(set(left) - stored) <= 3


class Killed:
    """A site that kills the crawl once it has been asked for some pages.

    Some pages are redirects, and some fail at first. robots.txt is answered after the spider has
    yielded all of its requests.
    """

    def __init__(self, folder: Path, pages: int) -> None:
        self.folder = folder
        self.pages = pages
        self.site = Site({"/robots.txt": self.robots_txt})
        for number in range(pages):
            self.site.replies[f"/{number}"] = self.page
        self.left = 0  # pages until the process is killed
        self.child = 0  # the ID of that process

    def robots_txt(self, _: Asked) -> Reply:
        while not (self.folder / STARTED).exists():
            self.site.closed.wait(0.02)
        return robots("User-agent: *\nDisallow: /x\n")

    def page(self, asked: Asked) -> Reply:
        self.left -= 1
        if self.left == 0:
            os.kill(self.child, signal.SIGKILL)
        if asked.target.endswith("3"):
            return redirect(f"/to{asked.target}")
        is_first = self.site.targets.count(asked.target) == 1
        return Reply(503) if asked.target.endswith("5") and is_first else PAGE

    def crawl(self, kill_after: tuple[int, ...]) -> None:
        """Crawl in a process that is killed after some pages, resume it several times, and then
        crawl to the end.
        """
        command = [sys.executable, "-m", "tests.support.job", str(self.folder), self.site.url("")]
        with subprocess.Popen(
            [*command, str(self.pages)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            cwd=ROOT,
        ) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            for self.left in (*kill_after, 0):
                is_killed = self.left > 0
                process.stdin.write("crawl\n")
                process.stdin.flush()
                self.child = int(process.stdout.readline())
                assert int(process.stdout.readline()) == (signal.SIGKILL if is_killed else 0)


def test_crawl_that_is_killed_three_times(tmp_path: Path) -> None:
    """Only the requests in flight are lost, and none is sent again, also beside large requests."""
    killed = Killed(tmp_path, 60)
    with killed.site as site:
        killed.crawl((2, 9, 14))
        asked = Counter(site.pages)
    again = {target for target, count in asked.items() if count > 1}
    assert again <= {f"/{number}" for number in range(5, 60, 10)}  # those that fail at first
    assert max(asked.values()) <= 2
    redirects = {f"/{number}" for number in range(3, 60, 10)}
    missing = {f"/{number}" for number in range(60)} - set(asked)
    missing |= {target for target in redirects if f"/to{target}" not in asked}
    assert len(missing) <= 3 * 4  # CONCURRENT_REQUESTS
    assert [path.name for path in (tmp_path / "requests.queue").iterdir()] == ["active.json"]
