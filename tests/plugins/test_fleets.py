"""Crawls of several processes: scrapy-redis with a real Redis server, scrapyd as a real process."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import zipfile
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from pytest_twisted import ensureDeferred

from tests.support.documents import block, settings
from tests.support.recipes import crawl_by, ruled, verdicts

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.redis_server import RedisServer

REDIS = block("docs/plugins.md", "python", "scrapy_redis")
SCRAPYD = block("docs/plugins.md", "python", "sqlite:")

SPIDER = """
from scrapy import Spider


class Shop(Spider):
    name = "shop"

    def __init__(self, site, **kwargs):
        super().__init__(**kwargs)
        self.start_urls = [f"{site}/open", f"{site}/private"]

    def parse(self, response):
        pass
"""


@ensureDeferred
async def test_scrapy_redis(redis_server: RedisServer) -> None:
    """A second crawl with the same server asks for no robots.txt, and judges by what the first
    one has.
    """
    recipe = settings(REDIS.replace("redis://127.0.0.1:6379/0", redis_server.url))
    assert recipe["ROBOTS_CACHE"] == redis_server.url
    with ruled() as site:
        pages = [site.url("/open"), site.url("/private")]
        for _ in range(2):
            result = await crawl_by(recipe, pages)
            assert verdicts(result) == {"open": "fetched", "private": "rule"}
            assert result.stats["scheduler/enqueued/redis"] >= 2
        assert site.fetches == 1
        assert site.pages == ["/open", "/open"]


def egg(folder: Path, code: str) -> bytes:
    """A project as scrapyd takes it."""
    file = folder / "shop.egg"
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("shop/__init__.py", "")
        archive.writestr(
            "shop/settings.py",
            f"{code}\nSPIDER_MODULES = ['shop.spiders']\nTELNETCONSOLE_ENABLED = False\n",
        )
        archive.writestr("shop/spiders.py", SPIDER)
        archive.writestr("EGG-INFO/PKG-INFO", "Metadata-Version: 1.0\nName: shop\nVersion: 1.0\n")
        archive.writestr("EGG-INFO/entry_points.txt", "[scrapy]\nsettings = shop.settings\n")
    return file.read_bytes()


class Scrapyd:
    """A server of scrapyd at a socket in its folder, and what it logs."""

    def __init__(self, process: subprocess.Popen[str], folder: Path) -> None:
        self.process, self.folder = process, folder
        self.logged(r"(Process slot 0) ready")

    def logged(self, pattern: str) -> str:
        """Read its log until a line has a pattern; return the group of it."""
        assert self.process.stdout is not None
        lines = []
        for line in self.process.stdout:
            lines.append(line)
            if found := re.search(pattern, line):
                return found[1]
        raise AssertionError("".join(lines))

    def ask(self, service: str, data: bytes, **headers: str) -> Any:
        """Post something to a service of it."""
        connection = HTTPConnection("localhost")
        connection.sock = socket.socket(socket.AF_UNIX)
        with closing(connection):
            connection.sock.connect(str(self.folder / "socket"))
            connection.request("POST", f"/{service}.json", data, headers)
            answer = json.load(connection.getresponse())
        assert answer["status"] == "ok", answer
        return answer

    def add(self, project: bytes) -> None:
        """Give it a version of the project."""
        fields = {"project": b"shop", "version": b"1", "egg": project}
        parts = [
            b'--edge\r\nContent-Disposition: form-data; name="%s"\r\n\r\n%s\r\n'
            % (name.encode(), value)
            for name, value in fields.items()
        ]
        body = b"".join(parts) + b"--edge--\r\n"
        self.ask("addversion", body, **{"Content-Type": "multipart/form-data; boundary=edge"})

    def run(self, site: str) -> str:
        """Schedule the spider, wait for its end, and return the name of its log."""
        words = urlencode({"project": "shop", "spider": "shop", "site": site}).encode()
        job: str = self.ask(
            "schedule", words, **{"Content-Type": "application/x-www-form-urlencoded"}
        )["jobid"]
        self.logged(rf"Process finished.*({job})")
        return f"logs/shop/shop/{job}.log"


@contextmanager
def scrapyd(folder: Path) -> Iterator[Scrapyd]:
    """Start scrapyd in a folder; end it."""
    config = (
        "[scrapyd]\nhttp_port = 0\nunix_socket_path = socket\npoll_interval = 0.1\nmax_proc = 1\n"
    )
    (folder / "scrapyd.conf").write_text(config, encoding="utf-8")
    environment = {key: value for key, value in os.environ.items() if not key.startswith("SCRAPY")}
    process = subprocess.Popen(
        [sys.executable, "-u", "-m", "scrapyd"],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        yield Scrapyd(process, folder)
    finally:
        process.kill()
        process.communicate()


def test_scrapyd(tmp_path: Path) -> None:
    """Jobs of scrapyd obey robots.txt.

    The second one asks for none, because the first one has left it in the store.
    """
    code = SCRAPYD.replace("/var/lib/scrapyd", str(tmp_path))
    with ruled() as site, scrapyd(tmp_path) as server:
        server.add(egg(tmp_path, code))
        logs = [(tmp_path / server.run(site.url(""))).read_text(encoding="utf-8") for _ in range(2)]
        assert site.fetches == 1
        assert site.pages == ["/open", "/open"]
    assert all("(robots.txt line 2: Disallow: /private)" in log for log in logs)
    assert "'robotstxt/cache/store_hits': 1" in logs[1]
