"""One request for a robots.txt, sent through Scrapy's downloader: proxies, retries, TLS and stats are Scrapy's own.

This module makes the request, cuts off its body, tells whether it was whole, and decodes it.
`fetch.py` follows redirects.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from scrapy import Request
from scrapy import signals as scrapy_signals
from scrapy.crawler import Crawler
from scrapy.exceptions import StopDownload
from scrapy.http import Response
from scrapy.http.headers import Headers
from scrapy.http.request import NO_CALLBACK
from scrapy.utils.httpobj import urlparse_cached
from scrapy.utils.misc import load_object
from twisted.python.failure import Failure

from scrapy_robots_rfc import _scrapy, signals
from scrapy_robots_rfc._runtime import Runtime
from scrapy_robots_rfc.cache.entry import Validators
from scrapy_robots_rfc.core.text import printable, without_credentials
from scrapy_robots_rfc.errors import BrokenTransferError, ForeignAnswerError
from scrapy_robots_rfc.fetching.decoding import (
    GZIP_MAGIC,
    MAX_EXPANSION,
    is_rendered,
    without_codings,
)
from scrapy_robots_rfc.fetching.routes import Routes
from scrapy_robots_rfc.fetching.sources import Transfer
from scrapy_robots_rfc.leaves import TRANSFERS
from scrapy_robots_rfc.settings import Settings

if TYPE_CHECKING:
    from scrapy_robots_rfc.fetching.pending import Crawl
    from scrapy_robots_rfc.fetching.replay import HttpCache

logger: logging.Logger = logging.getLogger(__name__)

#: The meta key that marks our own requests; its value is the `_Transfer`.
MARK = "_robots_rfc"

# Seconds after which a transfer no longer counts as one of its downloader slot: while a robots.txt
# hangs, other origins of the same slot would wait for it.
_PATIENCE = 0.5

#: Meta of every robots.txt request, and why.
META: dict[str, Any] = {
    "dont_obey_robotstxt": True,  # the file does not judge itself
    "allow_offsite": True,  # a redirect may lead to any host (RFC 9309, 2.3.1.2)
    "dont_redirect": True,  # policy/access.py follows redirects; no meta refresh is followed
    "dont_cache": True,  # HttpCacheMiddleware does not keep to the RFC's 24 hours; `HttpCache` puts answers there
    "dont_merge_cookies": True,  # the file is the same for everybody
    "download_maxsize": 0,  # longer files are cut off, not refused
    "download_warnsize": 0,
    "download_fail_on_dataloss": True,  # half a file must not open the origin, even if the user accepts half a page
}

# The meta keys of a page whose account, and mode of transfer, its server wants for the robots.txt,
# too.
_FTP = ("ftp_user", "ftp_password", "ftp_passive")


@dataclass(eq=False, slots=True)
class _Transfer:
    """One exchange. The request has it in its meta, and so have those that retries make of the request.

    :param mark: the fetch that it belongs to.
    :param request: the one whose answer is coming, which is another one after a retry.
    :param codings: the values of the Content-Encoding headers of that answer.
    :param taken: octets of its body that came.
    :param stopped: whether we stopped the transfer, because the rest is not needed.
    :param unanswered: whether the downloader has taken the request, and has no response to it.
    :param paused: whether the request waits for the turn of its site, so that its time does not
        run.
    """

    mark: object
    request: Request | None = None
    codings: Sequence[bytes] = ()
    taken: int = 0
    stopped: bool = False
    unanswered: bool = False
    paused: bool = False

    def begin(self, request: Request, codings: Sequence[bytes]) -> None:
        """Get ready for a body; called again for that of a retry."""
        self.request, self.codings, self.taken, self.stopped = request, codings, 0, False

    def __deepcopy__(self, _memo: object) -> _Transfer:
        return self  # a retry copies the meta of its request, and belongs to the same exchange


class Downloader:
    """Asks for robots.txt files through the engine of a crawl; a crawl has one.

    :param settings: of the crawl; a transfer is cut off after `max_size` decoded octets.
    :param crawl: is called with each request that was sent.
    :param cache: the HTTP cache, which keeps whole answers.
    """

    def __init__(
        self, crawler: Crawler, settings: Settings, crawl: Crawl, cache: HttpCache
    ) -> None:
        self._crawler = crawler
        self._crawl = crawl
        self._cache = cache
        #: Gives the routes of requests.
        self.routes: Routes = Routes(crawler)
        self._obeyed = settings.schemes
        self._limit = (
            settings.max_size + 1
        )  # one octet more than counts, so that the parser sees that there is more
        self._prepared: set[str] = set()
        #: What `_signal` wraps; ``None`` before the first transfer.
        self._send: Callable[..., list[tuple[Any, Any]]] | None = None
        self._handlers: dict[int, Callable[..., bool | None]] = {
            id(scrapy_signals.request_reached_downloader): self._reached,
            id(scrapy_signals.headers_received): self._headers_received,
            id(scrapy_signals.bytes_received): self._bytes_received,
            id(scrapy_signals.response_downloaded): self._response_downloaded,
        }
        self._late: dict[
            Request, Any
        ] = {}  # requests that have given up the places in their slots -> those slots

    def request(
        self,
        url: str,
        *,
        timeout: float,
        mark: object,
        retry: bool = False,
        asker: Request | None = None,
        known: Validators | None = None,
    ) -> Request:
        """Return a request for a robots.txt. When it has been sent, its meta tells which proxy it went through.

        :param timeout: seconds.
        :param mark: what `queued` returns for this fetch.
        :param retry: whether Scrapy's own retries apply.
        :param asker: the request that the file is fetched for; ``None``: there is none.
        :param known: the validators of the file that is at hand: the answer may be that it still
            holds (304).
        """
        meta = {**META, "download_timeout": timeout, MARK: _Transfer(mark)}
        if not retry:
            meta["dont_retry"] = True
        headers: dict[
            bytes, bytes
        ] = {}  # Scrapy adds Accept-Encoding and all others, as it does for a page
        if known is not None and known.etag is not None:
            headers[b"If-None-Match"] = known.etag
        if known is not None and known.last_modified is not None:
            headers[b"If-Modified-Since"] = known.last_modified
        if asker is not None:
            self.inherit_route(asker, url, meta, headers)
        if url.startswith("ftp:"):
            meta.setdefault("proxy", None)  # Scrapy's handler uses none that the environment names
        # Before every page, as Scrapy's own middleware asks.
        return Request(url, priority=1000, callback=NO_CALLBACK, meta=meta, headers=headers)

    def inherit_route(
        self, asker: Request, url: str, meta: dict[str, Any], headers: dict[bytes, bytes]
    ) -> None:
        """Copy what decides the way of the page: its proxy, local address and slot; to the same host, its FTP account.

        Nothing else is inherited.
        """
        parts, page = urlsplit(url), urlparse_cached(asker)
        if (parts.scheme, parts.hostname) == (page.scheme, page.hostname):
            meta.update((key, asker.meta[key]) for key in _FTP if key in asker.meta)
        slot = chosen_slot(asker)
        if slot is not None:
            meta["download_slot"] = slot
        if "bindaddress" in asker.meta:
            meta["bindaddress"] = asker.meta["bindaddress"]
        if "proxy" not in asker.meta:
            return
        # HttpProxyMiddleware chooses a proxy from the environment again for each hop, by its
        # scheme.
        chosen = self.routes.usual(asker)
        if chosen is not None and chosen == self.routes.of(asker):
            return
        meta["proxy"] = asker.meta["proxy"]
        # HttpProxyMiddleware has moved the credentials of `proxy` into this header.
        credentials = asker.headers.get(b"Proxy-Authorization")
        if credentials is not None and meta["proxy"]:
            headers[b"Proxy-Authorization"] = credentials

    async def send(self, request: Request) -> tuple[Response, bytes]:
        """Return the answer to a request, and its decoded body if it is a 2xx.

        Raises whatever goes wrong.
        """
        engine, response, transfer = self._crawler.engine, None, request.meta[MARK]
        assert engine is not None
        if (scheme := urlparse_cached(request).scheme) not in self._prepared:
            self._prepare(scheme)
        if self._send is None:
            # Once, and for good: another component may wrap it, too, and taking ours out would take
            # that out.
            self._send = self._crawler.signals.send_catch_log
            self._crawler.signals.send_catch_log = self._signal  # type: ignore[method-assign]
        try:
            with _scrapy.one_more(self._crawler):
                response = await engine.download_async(request)
        except BaseException:
            # Most likely this was cancelled, and Scrapy goes on with the transfer for as long as
            # the server likes.
            _scrapy.withdraw(self._crawler, request)
            if self._give_place(request):
                self._crawl.sent(request)
            raise
        finally:
            self._signal_exchanged(transfer, transfer.request or request, response)
        body = self._body(response, transfer)
        self._cache.store(request.url, response, body)
        return response, body

    def _signal_exchanged(
        self, transfer: _Transfer, request: Request, response: Response | None
    ) -> None:
        self._crawler.signals.send_catch_log(
            signals.robots_exchanged,
            origin=getattr(transfer.mark, "origin", None),
            request=request,
            response=response,
            codings=transfer.codings,
            cut_off=transfer.stopped,
        )

    def _reached(self, transfer: _Transfer, request: Request, **_: object) -> None:
        """Called when a request, or a retry of it, joins the queue of its slot."""
        transfer.unanswered = True
        Runtime().call_later(_PATIENCE, partial(self._look, transfer, request))

    def _look(self, transfer: _Transfer, request: Request) -> None:
        """Let a transfer that takes long hold no place any more."""
        if (
            transfer.unanswered and self._give_place(request) is None
        ):  # it still stands in the queue
            Runtime().call_later(_PATIENCE, partial(self._look, transfer, request))

    def _give_place(self, request: Request) -> Any:  # noqa: ANN401 - see `give_place` in `_scrapy.py`
        slot = self._late.get(request) or _scrapy.give_place(self._crawler, request)
        if slot:
            if not self._late:
                self._crawler.signals.connect(self._left, scrapy_signals.request_left_downloader)
            self._late[request] = slot
        return slot

    def _left(self, request: Request) -> None:
        slot = self._late.pop(request, None)
        if slot is not None:
            _scrapy.end_late(slot)
            if not self._late:
                self._crawler.signals.disconnect(self._left, scrapy_signals.request_left_downloader)

    def _body(self, response: Response, transfer: _Transfer) -> bytes:
        if transfer.unanswered:  # a middleware made this answer up after the download had failed
            raise ForeignAnswerError(
                f"answered {response.status} in place of a download that failed"
            )
        # The body of another answer is not used, so it does not matter whether it can be decoded.
        # Gemini says 20 to 29.
        if response.status // 100 != 2 and response.status // 10 != 2:
            return b""
        if "download_stopped" in response.flags and not transfer.stopped:
            # No signal handler did this (see `_signal`). The part that is missing may have the
            # rules that forbid.
            raise StopDownload(fail=False)
        if "dataloss" in response.flags and not transfer.stopped:
            raise BrokenTransferError("the transfer broke off")
        if is_rendered(response.body):
            text = "%s came as the page that a browser shows for a text, and counts as that text"
            shown = printable(without_credentials(response.url))
            logger.info(text, shown, extra={"spider": self._crawler.spider})
        return without_codings(response.body, transfer.codings, self._limit)

    def queued(self) -> set[object]:
        """The marks of the fetches whose request stands in a queue of the downloader."""
        return {meta[MARK].mark for meta in _scrapy.queued_metas(self._crawler) if MARK in meta}

    def _prepare(self, scheme: str) -> None:
        """Have the handler of a scheme transfer our files in the way that its row asks for, if it asks for one."""
        self._prepared.add(scheme)
        obeyed = self._obeyed.get(scheme)
        if obeyed is not None and obeyed.answers in TRANSFERS:
            transfer: Transfer = load_object(TRANSFERS[obeyed.answers])
            transfer(
                _scrapy.handler_of(self._crawler, scheme), self._crawler.settings, MARK, self._limit
            )

    def _signal(self, signal: object = None, **named: Any) -> list[tuple[Any, Any]]:  # noqa: ANN401 - as Scrapy has it
        """Send a signal, as Scrapy does; handle it afterwards, if it is about a transfer of ours.

        Signal handlers may not stop our transfers, as Scrapy lets a spider stop its pages. A
        handler that raises StopDownload is still called, but what it raised is left out of the
        answers from which download handlers see whether to go on.
        """
        assert self._send is not None
        answers = self._send(signal, **named)
        handle = self._handlers.get(id(signal))
        if handle is None or MARK not in getattr(named.get("request"), "meta", ()):
            return answers
        if signal in (scrapy_signals.headers_received, scrapy_signals.bytes_received):
            answers = [
                one
                for one in answers
                if not isinstance(getattr(one[1], "value", None), StopDownload)
            ]
        try:
            if handle(named["request"].meta[MARK], **named):
                answers.append((handle, Failure(StopDownload(fail=False))))  # type: ignore[no-untyped-call]  # Twisted's
        except Exception:
            logger.exception("A signal of %s was not handled", named["request"])
        return answers

    def _headers_received(
        self, transfer: _Transfer, headers: Headers, request: Request, **_: object
    ) -> None:
        transfer.begin(request, headers.getlist(b"Content-Encoding"))

    def _bytes_received(
        self, transfer: _Transfer, data: bytes, request: Request, **_: object
    ) -> bool:
        if (
            transfer.request is not request
        ):  # a download handler of the user's does not send `headers_received`
            transfer.begin(request, ())
        if not transfer.taken and data.startswith(GZIP_MAGIC):
            transfer.codings = transfer.codings or (b"gzip",)
        transfer.taken += len(data)
        most = self._limit * MAX_EXPANSION if transfer.codings else self._limit - 1
        transfer.stopped = transfer.taken > most
        return transfer.stopped

    def _response_downloaded(
        self, transfer: _Transfer, request: Request, response: Response, **_: object
    ) -> None:
        transfer.unanswered = False
        # Without the header, HttpCompressionMiddleware leaves the body alone: it would drop a body
        # that gets longer than DOWNLOAD_MAXSIZE, or decode it without a bound.
        transfer.codings = response.headers.getlist(b"Content-Encoding")
        response.headers.pop(b"Content-Encoding", None)
        self._crawl.sent(request)


def chosen_slot(request: Request) -> str | None:
    """The downloader slot that the user chose for a request; ``None`` if the user chose none.

    Scrapy itself writes the host of a request there, and a redirect keeps that of the URL before
    it.
    """
    slot: str | None = request.meta.get("download_slot")
    before = (urlsplit(url).hostname for url in request.meta.get("redirect_urls", ()))
    return (
        None
        if slot is None or slot == urlparse_cached(request).hostname or slot in before
        else slot
    )


def pause(request: Request, *, on: bool) -> None:
    """Note that a request of ours waits for the turn of its site, or no longer.

    That is no time of its fetch.
    """
    if MARK in request.meta:
        request.meta[MARK].paused = on


def is_paused(request: Request | None) -> bool:
    """Whether a request of ours waits for the turn of its site."""
    return request is not None and bool(request.meta[MARK].paused)
