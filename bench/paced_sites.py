"""The sites of `bench.paced`, in a process of their own, which loads nothing of Scrapy: it starts
sooner.

`python -m bench.paced_sites DELAY` prints the port of all of them.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING
from urllib.request import urlopen

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Seconds that a page takes, so that a crawl is bound by its concurrency, and not by this machine.
LATENCY = 0.05
# Longer than any crawl.
_ENDLESS = 3600


async def serve(delay: float) -> None:
    """Be all sites: 127.1.0.x ask for the delay, 127.3.0.x never answer, others ask for nothing.

    /log has when each page was asked for.
    """
    arrivals: list[tuple[float, str, str]] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        host = writer.get_extra_info("sockname")[0]
        while line := await reader.readline():
            while await reader.readline() not in (b"\r\n", b""):
                pass
            target = line.split()[1].decode()
            body = b"page"
            if target == "/log":
                body = json.dumps(arrivals).encode()
            else:
                arrivals.append((time.monotonic(), host, target))
                await asyncio.sleep(_ENDLESS if host.startswith("127.3.") else LATENCY)
            if target == "/robots.txt":
                body = b"User-agent: *\nDisallow: /x\n"
                body += b"Crawl-delay: %g\n" % delay if host.startswith("127.1.") else b""
            writer.write(
                b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n"
                % len(body)
                + body
            )

    server = await asyncio.start_server(answer, "0.0.0.0", 0, backlog=1000)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


class Sites:
    """The sites, in a process of their own.

    :param port: of all of them.
    """

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        self.port = int(process.stdout.readline())

    def urls(self, net: int, sites: int, pages: int, path: str = "/") -> list[str]:
        """Pages of sites, one of each in turn; those of net 1 are paced."""
        return [
            f"http://127.{net}.0.{1 + n}:{self.port}{path}{page}"
            for page in range(pages)
            for n in range(sites)
        ]

    def log(self) -> dict[str, list[tuple[float, str]]]:
        """Return for each site when it was asked for what."""
        found: dict[str, list[tuple[float, str]]] = {}
        with urlopen(f"http://127.0.0.1:{self.port}/log") as answer:
            for when, host, target in json.load(answer):
                found.setdefault(host, []).append((when, target))
        return found


@contextmanager
def serving(delay: float) -> Iterator[Sites]:
    """Serve the sites."""
    command = [sys.executable, "-m", "bench.paced_sites", str(delay)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield Sites(process)
        finally:
            process.kill()


if __name__ == "__main__":
    asyncio.run(serve(float(sys.argv[1])))
