"""A worker process of a fleet whose scheduler is in a Redis server.

For fleets with a worker that is killed, see `example/test_fleet.py`.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING

import pytest
import redis

from tests.support.documents import block
from tests.support.site import HANG, PAGE, Asked, Reply, Site, robots

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.redis_server import RedisServer


SPIDER = """
from scrapy import Request, Spider

class Worker(Spider):
    name = "worker"
    custom_settings = globals()

    async def start(self):
        for url in self.urls.split():
            yield Request(url)

    def parse(self, response):
        pass
"""


@pytest.mark.usefixtures("redis_installed")
@pytest.mark.parametrize(
    "reply", [HANG, robots("User-agent: *\nCrawl-delay: 50\n")], ids=["hanging", "paced"]
)
def test_waiting_requests_go_back(redis_server: RedisServer, tmp_path: Path, reply: Reply) -> None:
    """A site whose requests wait delays no other site. A worker that gets SIGTERM ends soon, and
    its waiting requests are in the shared queue.
    """
    started = threading.Event()

    def last_page(_: Asked) -> Reply:
        started.set()
        return PAGE

    recipe = block("docs/plugins.md", "python", "scrapy_redis")
    spider = tmp_path / "worker.py"
    spider.write_text(recipe.replace("redis://127.0.0.1:6379/0", redis_server.url) + SPIDER)
    with Site({"/robots.txt": reply}) as waiting, Site({"/last": last_page}) as site:
        urls = [*(waiting.url(f"/{number}") for number in range(20)), site.url("/last")]
        command = [sys.executable, "-m", "scrapy", "runspider", str(spider), "-a"]
        with subprocess.Popen([*command, "urls=" + " ".join(urls)], cwd=tmp_path) as worker:
            assert started.wait(100)
            stopped = time.monotonic()
            worker.send_signal(signal.SIGTERM)
            assert worker.wait(100) == 0
        assert waiting.pages == []
    assert time.monotonic() - stopped < 30  # robots.txt and pages may take up to 180 s
    with redis.Redis(port=redis_server.port) as client:
        assert client.zcard("worker:requests") == 20
        client.delete("worker:requests")
