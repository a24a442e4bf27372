"""Sites for the crawls of benchmarks, in a process of their own: `python -m bench.sites`.

All sites listen on one port, which is printed. The address of a site determines what it does:

- 127.0.x.y answers as fast as it can,
- 127.1.x.y has a Crawl-delay,
- 127.2.x.y takes `LATENCY` seconds for each answer,
- 127.3.x.y never answers,
- 127.4.x.y has one of several answers to requests for robots.txt, see `_VARIANTS`.

It does not import Scrapy, so that it starts fast.
"""

import asyncio
import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

#: Seconds for each answer, so that concurrency limits a crawl, and not the machine.
LATENCY = 0.05
_NEVER = 3600.0
RULES = b"""User-agent: *
Disallow: /admin/
Disallow: /cart
Disallow: /checkout
Disallow: /search
Disallow: /*?sort=
Disallow: /*/print/
Allow: /search/about
Disallow: /tmp/
Disallow: /x
Disallow: /user/login
Disallow: /user/register
Disallow: /*.pdf$
Disallow: /cgi-bin/
"""
_PACED_RULES = RULES + b"Crawl-delay: 5\n"
_PAGE = b"<!DOCTYPE html><html><body><p>Some text.</p></body></html>" * 8
_HTML = b"<!DOCTYPE html><html><body>Page not found</body></html>"
# Status and body for robots.txt; the last number of the address chooses one.
_VARIANTS = (
    (b"200 OK", RULES),
    (b"200 OK", RULES + b"Crawl-delay: 1\n"),
    (b"404 Not Found", b""),
    (b"503 Service Unavailable", b""),
    (b"200 OK", _HTML),
    (b"200 OK", b"User-agent: *\nDisallow: /\n"),
    (b"500 Internal Server Error", b""),
    (b"200 OK", b"User-agent: *\nDisallow:\n"),
)


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer the requests on a connection."""
    _, net, _, last = map(int, writer.get_extra_info("sockname")[0].split("."))
    while line := await reader.readline():
        while await reader.readline() not in (b"\r\n", b""):
            pass
        status, kind, body = b"200 OK", b"text/html", _PAGE
        await asyncio.sleep(_NEVER if net == 3 else LATENCY if net in (1, 2) else 0)
        if line.split()[1] == b"/robots.txt":
            kind = b"text/plain"
            body = _PACED_RULES if net == 1 else RULES
            if net == 4:
                status, body = _VARIANTS[last % len(_VARIANTS)]
        head = b"HTTP/1.1 %b\r\nContent-Type: %b\r\nContent-Length: %d\r\n\r\n"
        writer.write(head % (status, kind, len(body)) + body)


async def _serve() -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    server = await asyncio.start_server(_answer, "0.0.0.0", 0, backlog=2000)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


class Sites:
    """The sites, as seen from the process that started them."""

    def __init__(self, port: int) -> None:
        self.port = port

    def urls(self, net: int, sites: int, pages: int, path: str = "/") -> list[str]:
        """Return URLs of pages, one of each site in turn."""
        hosts = [f"127.{net}.{n // 200}.{1 + n % 200}" for n in range(sites)]
        return [f"http://{host}:{self.port}{path}{page}" for page in range(pages) for host in hosts]


@contextmanager
def serving() -> Iterator[Sites]:
    """Serve the sites."""
    command = [sys.executable, "-m", "bench.sites"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield Sites(int(process.stdout.readline()))
        finally:
            process.kill()


if __name__ == "__main__":
    asyncio.run(_serve())
