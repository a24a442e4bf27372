"""The spider in docs/limits.md keeps the queue short, and its setting saves file descriptors."""

from __future__ import annotations

import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import pytest
from pytest_twisted import ensureDeferred
from scrapy import signals
from scrapy.core.engine import ExecutionEngine

from tests.support.crawling import make_crawler
from tests.support.documents import ROOT, block, imported
from tests.support.serving import Served
from tests.support.site import robots

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.site import Site

LAZY = block("docs/limits.md", "python", "class BroadSpider")
CLOSE = block("docs/limits.md", "python", "Connection")


@pytest.mark.skipif(not hasattr(ExecutionEngine, "scheduler"), reason="Scrapy 2.19 has it")
@ensureDeferred
async def test_lazy_start(site: Site, tmp_path: Path) -> None:
    """The spider does not fill the queue while a robots.txt is fetched, and requests all pages."""
    gate = threading.Event()
    site.replies["/robots.txt"] = robots("", gate=gate)
    module = imported(LAZY, tmp_path)
    module.MAX_QUEUED = 20
    module.BroadSpider.urls = [site.url(f"/{number}") for number in range(100)]
    crawler = make_crawler(module.BroadSpider)
    lengths = []

    def measure() -> None:
        scheduler: Any = crawler.engine.scheduler
        lengths.append(len(scheduler))
        if lengths[-1] >= module.MAX_QUEUED - 1:
            gate.set()

    crawler.signals.connect(measure, signals.request_scheduled)
    await crawler.crawl()
    assert crawler.stats.get_value("item_scraped_count") == 100
    assert max(lengths) < module.MAX_QUEUED


class KeepAlive(BaseHTTPRequestHandler):
    """Keeps connections open, unless the client does not want that."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the standard library's name
        """Log nothing."""


class Hosts(Served):
    """A server that answers for all addresses of the loopback network."""

    def __enter__(self) -> int:
        server = ThreadingHTTPServer(("0.0.0.0", 0), KeepAlive)
        server.daemon_threads = True
        self.begin(server)
        return int(server.server_address[1])


#: A crawl of 150 hosts in a process that may open 120 files.
FEW_DESCRIPTORS = """
import resource, sys
from scrapy import Spider
from scrapy.crawler import CrawlerProcess

resource.setrlimit(resource.RLIMIT_NOFILE, (120, 120))
port, code = sys.argv[1:]
chosen = {}
exec(code, chosen)

class Pages(Spider):
    name = "pages"
    start_urls = [f"http://127.1.{n // 100}.{n % 100 + 1}:{port}/" for n in range(150)]

    def parse(self, response):
        pass

settings = {
    "ADDONS": {"scrapy_robots_rfc.Addon": 500},
    "DEFAULT_REQUEST_HEADERS": chosen.get("DEFAULT_REQUEST_HEADERS", {}),
    "LOG_ENABLED": False,
    "TELNETCONSOLE_ENABLED": False,
    "REMOTE_CONTROL_ENABLED": False,
    "ROBOTS_UNREACHABLE_BACKOFF": [],
    "RETRY_ENABLED": False,
    "CONCURRENT_REQUESTS": 4,
}
process = CrawlerProcess(settings)
crawler = process.create_crawler(Pages)
process.crawl(crawler)
process.start()
print(*[crawler.stats.get_value(key) for key in ("robotstxt/allowed", "downloader/response_count")])
"""


def test_connections_that_servers_close() -> None:
    """With the setting, a crawl of more hosts than file descriptors fetches all pages."""
    with Hosts() as port:
        run = subprocess.run(
            [sys.executable, "-c", FEW_DESCRIPTORS, str(port), CLOSE],
            capture_output=True,
            text=True,
            check=False,
            cwd=ROOT,
        )
    assert (run.stdout, run.stderr) == ("150 300\n", "")
