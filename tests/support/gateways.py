"""Fakes of services that fetch pages for a crawl, on free ports.

A request is JSON with the URL of a page. The answers come from a table, in the form of the real
service.
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from tests.support.site import Served

#: The HTML that Chromium shows for a text file.
BROWSERS_VIEW = (
    '<html><head><meta name="color-scheme" content="light dark"></head><body>'
    '<pre style="word-wrap: break-word; white-space: pre-wrap;">{}</pre></body></html>'
)


@dataclass
class Gateway(Served):
    """A service.

    :param pages: status and body by URL; every other URL has a page.
    :param redirects: targets of redirects by URL; the service follows them.
    """

    pages: dict[str, tuple[int, str]] = field(default_factory=dict)
    redirects: dict[str, str] = field(default_factory=dict)
    asked: list[dict[str, Any]] = field(default_factory=list)

    def __enter__(self) -> Self:
        gateway = self

        class Handler(_Handler):
            pass

        Handler.gateway = gateway
        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        self.begin(server)
        return self

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}"

    @property
    def urls(self) -> list[str]:
        """The URLs of all requests, in order."""
        return [asked["url"] for asked in self.asked]

    def page(self, url: str) -> tuple[int, str]:
        return self.pages.get(url, (200, "<p>page"))

    def answer(self, asked: dict[str, Any]) -> tuple[int, str, bytes]:
        """Return status, type and body of the answer."""
        raise NotImplementedError


class Splash(Gateway):
    """Splash's render.html, and its render.json with the argument `html`."""

    def answer(self, asked: dict[str, Any]) -> tuple[int, str, bytes]:
        """Return the page in the browser. Only render.json also returns its final URL."""
        url = self.redirects.get(asked["url"], asked["url"])
        _, body = self.page(url)
        if "html" not in asked:
            return 200, "text/html", body.encode()
        return 200, "application/json", json.dumps({"url": url, "html": body}).encode()


class ZyteApi(Gateway):
    """Zyte API: its `extract` answers with the body or the HTML of a browser, as requested.

    :param refusal: if set, the status and error type of every answer.
    """

    refusal: tuple[int, str] | None = None

    def answer(self, asked: dict[str, Any]) -> tuple[int, str, bytes]:
        if self.refusal:
            status, kind = self.refusal
            error = {"type": kind, "status": status, "title": kind}
            return status, "application/json", json.dumps(error).encode()
        url = asked["url"]
        location = self.redirects.get(url)
        if location is not None and asked.get("followRedirect", True):
            url, location = location, None
        status, body = self.page(url)
        plain = not body.startswith("<")
        record: dict[str, Any] = {"url": url, "statusCode": 302 if location else status}
        if asked.get("httpResponseBody"):
            record["httpResponseBody"] = base64.b64encode(body.encode()).decode()
        if asked.get("httpResponseHeaders"):
            record["httpResponseHeaders"] = [
                {"name": "content-type", "value": "text/plain" if plain else "text/html"},
                *([{"name": "location", "value": location}] if location else []),
            ]
        if asked.get("browserHtml"):
            record["browserHtml"] = BROWSERS_VIEW.format(body) if plain else body
        return 200, "application/json", json.dumps(record).encode()


class _Handler(BaseHTTPRequestHandler):
    gateway: Gateway
    protocol_version = "HTTP/1.1"
    wbufsize = 64 * 1024

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.gateway.asked.append(asked)
        status, kind, body = self.gateway.answer(asked)
        self.send_response_only(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name that http.server calls
        """Log nothing."""
