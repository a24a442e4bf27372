"""One request for a robots.txt, sent through Scrapy's downloader.

Proxies, retries, TLS and stats are Scrapy's own. This module makes the request, cuts off its body,
finds out whether that was whole, and decodes it. `fetch.py` follows redirects.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import urlsplit
from urllib.request import getproxies

from scrapy import signals as scrapy_signals
from scrapy.crawler import Crawler
from scrapy.downloadermiddlewares.httpproxy import HttpProxyMiddleware
from scrapy.exceptions import StopDownload
from scrapy.http import Headers, Request, Response
from scrapy.http.request import NO_CALLBACK
from scrapy.utils.httpobj import urlparse_cached
from scrapy.utils.misc import load_object
from twisted.python.failure import Failure

from scrapy_robots_rfc import _scrapy, signals
from scrapy_robots_rfc._runtime import CANCELLED
from scrapy_robots_rfc.cache.entry import Validators
from scrapy_robots_rfc.errors import BrokenTransferError, ForeignAnswerError
from scrapy_robots_rfc.fetching.decoding import GZIP_MAGIC, MAX_EXPANSION, without_codings
from scrapy_robots_rfc.fetching.sources import HttpCache
from scrapy_robots_rfc.leaves import TRANSFERS
from scrapy_robots_rfc.policy.access import Local, Unreachable
from scrapy_robots_rfc.settings import Settings

if TYPE_CHECKING:
    from scrapy_robots_rfc.fetching.pending import Crawl, PendingFetch

logger: logging.Logger = logging.getLogger(__name__)

#: The meta key that marks our own requests; its value is the `_Exchange`.
MARK = "_robots_rfc"

#: Meta of every robots.txt request, and why.
META: dict[str, Any] = {
    "dont_obey_robotstxt": True,  # the file does not judge itself
    "allow_offsite": True,  # a redirect may lead to any host (RFC 9309, 2.3.1.2)
    "dont_redirect": True,  # policy/access.py follows redirects; no meta refresh is followed
    "dont_cache": True,  # the HTTP cache does not know the RFC's 24 hours, see `HttpCache`
    "dont_merge_cookies": True,  # the file is the same for everybody
    "download_maxsize": 0,  # longer files are cut off, not refused
    "download_warnsize": 0,
    # Half a file must not open the origin, even if the user accepts half a page.
    "download_fail_on_dataloss": True,
}

# The meta keys of a page that say which way it goes. Its account, and its mode of transfer, are for
# its own host only.
_WAY = ("bindaddress", "download_slot")
_WAY_TO_HOST = (*_WAY, "ftp_user", "ftp_password", "ftp_passive")

#: The proxy of a request with its credentials, since a gateway may send each user another way, or
#: its FTP account; ``None``: the request has neither, or a later middleware chooses the proxy.
Route: TypeAlias = str | None

_USERINFO = re.compile(r"^([^/@]*//)?[^/]*@")


@dataclass(slots=True, eq=False, repr=False)
class _Exchange:
    """What is known of one exchange. Retries of its request have it in their meta, too.

    :param fetch: that it belongs to.
    :param request: the one whose answer is coming, which is another one after a retry.
    :param take_back: takes back the place that its slot has because of the request.
    :param codings: the values of the Content-Encoding headers of the answer.
    :param taken: octets of its body that came.
    :param stopped: whether we stopped the transfer, because the rest is not needed.
    :param unanswered: whether the downloader has the request, and no response to it.
    :param over: whether nothing waits for it any more, although the transfer may go on.
    """

    fetch: PendingFetch
    request: Request | None = None
    take_back: Callable[[], None] | None = None
    codings: Sequence[bytes] = ()
    taken: int = 0
    stopped: bool = False
    unanswered: bool = False
    over: bool = False

    def __deepcopy__(self, _memo: object) -> _Exchange:
        return self  # a retry copies the meta of its request, and belongs to the same exchange


class Downloader:
    """Asks for robots.txt files through the engine of a crawl; a crawl has one.

    :param settings: a transfer is cut off after `max_size` decoded octets.
    """

    def __init__(self, crawler: Crawler, settings: Settings, crawl: Crawl) -> None:
        self._crawler = crawler
        self._crawl = crawl
        #: Stores whole answers, or gives them, and then nothing is sent.
        self.cache: HttpCache = HttpCache(crawler, settings)
        #: Gives the routes of requests.
        self.routes: Routes = Routes(crawler)
        # One octet more than counts, so that the parser sees that there is more.
        self._limit = settings.max_size + 1
        self._meta = {**META, "download_timeout": settings.timeout}
        if settings.unreachable_backoff:  # Scrapy's own retries would multiply with its attempts
            self._meta["dont_retry"] = True
        # Scheme -> what has the handler of the scheme transfer our files in another way.
        self._transfers = {
            name: TRANSFERS[scheme.answers]
            for name, scheme in settings.schemes.items()
            if scheme.answers in TRANSFERS
        }
        # Sends signals while an exchange is under way. Later it would slow down those of pages.
        self._wrapper: partial[list[tuple[Any, Any]]] | None = None
        self._under_way: set[_Exchange] = set()
        self._handlers: dict[int, Callable[..., bool | None]] = {
            id(scrapy_signals.request_reached_downloader): self._reached,
            id(scrapy_signals.headers_received): self._headers_received,
            id(scrapy_signals.bytes_received): self._bytes_received,
            id(scrapy_signals.response_downloaded): self._response_downloaded,
            id(scrapy_signals.request_left_downloader): self._left,
        }

    def request(self, url: str, fetch: PendingFetch, known: Validators | None) -> Request:
        """Return a request for a robots.txt; once sent, its meta has the proxy that it used.

        :param fetch: that it belongs to; it goes the way of the source of that.
        :param known: the validators of a cached file: the answer may be that it is unchanged (304).
        """
        meta = {**self._meta, MARK: _Exchange(fetch)}
        # Scrapy adds Accept-Encoding and all others, as it does for a page.
        headers: dict[bytes, bytes] = {}
        if known is not None and known.etag is not None:
            headers[b"If-None-Match"] = known.etag
        if known is not None and known.last_modified is not None:
            headers[b"If-Modified-Since"] = known.last_modified
        if fetch.source is not None:
            self.inherit_route(fetch.source, url, meta, headers)
        if url.startswith("ftp:"):
            meta.setdefault("proxy", None)  # Scrapy's handler uses none that the environment names
        # Before every page, as Scrapy's own middleware asks.
        return Request(url, priority=1000, callback=NO_CALLBACK, meta=meta, headers=headers)

    def inherit_route(
        self, source: Request, url: str, meta: dict[str, Any], headers: dict[bytes, bytes]
    ) -> None:
        """Copy which way a page goes: its proxy, local address, slot, and account of FTP."""
        parts = urlsplit(url)
        page = urlparse_cached(source)
        same_host = (parts.scheme, parts.hostname) == (page.scheme, page.hostname)
        copied = _WAY_TO_HOST if same_host else _WAY
        meta.update((key, source.meta[key]) for key in copied if key in source.meta)
        if "proxy" not in source.meta:
            return
        # HttpProxyMiddleware chooses a proxy from the environment again for each hop, by its
        # scheme.
        chosen = self.routes.usual(source)
        if chosen is not None and chosen == self.routes.of(source):
            return
        meta["proxy"] = source.meta["proxy"]
        # HttpProxyMiddleware has moved the credentials of `proxy` into this header.
        credentials = source.headers.get(b"Proxy-Authorization")
        if credentials is not None and meta["proxy"]:
            headers[b"Proxy-Authorization"] = credentials

    async def send(self, request: Request) -> tuple[Response | None, bytes]:
        """Return the answer to a request, and its decoded body if it is a 2xx.

        Raises whatever goes wrong. ``None``: it is not in the HTTP cache, and nothing may be sent.
        """
        exchange: _Exchange = request.meta[MARK]
        if not self.cache.offline:
            response = await self._exchanged(request, exchange)
            body = self._body(response, exchange)
            self.cache.store(request.url, response, body)
            return response, body
        stored = self.cache.answer(request.url)
        if stored is None:
            return None, b""
        exchange.codings = stored.headers.getlist(b"Content-Encoding")
        return stored, self._body(stored, exchange)

    async def _exchanged(self, request: Request, exchange: _Exchange) -> Response:
        engine = self._crawler.engine
        assert engine is not None
        response = None
        scheme = urlparse_cached(request).scheme
        transfer = self._transfers.pop(scheme, None)
        if transfer is not None:  # it is the first request of the scheme
            handler = _scrapy.handler_of(self._crawler, scheme)
            load_object(transfer)(handler, self._crawler.settings, MARK, self._limit)
        self._under_way.add(exchange)
        if self._wrapper is None:
            self._wrapper = partial(self._signal, self._crawler.signals.send_catch_log)
            self._crawler.signals.send_catch_log = self._wrapper  # type: ignore[method-assign]
        give_back = _scrapy.one_more(self._crawler)
        try:
            response = await engine.download_async(request)
            return response
        except CANCELLED:
            # Scrapy goes on with a transfer that has begun, until its own time is over.
            current = exchange.request or request  # a retry is another one
            if _scrapy.withdraw(self._crawler, current):
                self._left(exchange)
            elif exchange.unanswered:
                self._crawl.sent(current)
            raise
        finally:
            give_back()
            exchange.over = True
            if exchange.take_back is None:
                self._unwrap_after(exchange)
            self._crawler.signals.send_catch_log(
                signals.robots_exchanged,
                origin=exchange.fetch.origin,
                request=exchange.request or request,
                response=response,
                codings=exchange.codings,
                cut_off=exchange.stopped,
            )

    def _body(self, response: Response, exchange: _Exchange) -> bytes:
        if exchange.unanswered:  # a middleware made this answer up after the download had failed
            problem = f"answered {response.status} in place of a download that failed"
            raise ForeignAnswerError(problem)
        # The body of another answer is not used, so it does not matter whether it can be decoded.
        # Gemini says 20 to 29.
        if response.status // 100 != 2 and response.status // 10 != 2:
            return b""
        if "download_stopped" in response.flags and not exchange.stopped:
            # A part of the crawl stopped it, by other means than a signal (see `_signal`). The part
            # that is missing may have the rules that forbid.
            raise StopDownload(fail=False)
        if "dataloss" in response.flags and not exchange.stopped:
            raise BrokenTransferError("the transfer broke off")
        return without_codings(response.body, exchange.codings, self._limit)

    def queued(self) -> set[object]:
        """The fetches whose request stands in a queue of the downloader."""
        return {meta[MARK].fetch for meta in _scrapy.queued_metas(self._crawler) if MARK in meta}

    # Signals of Scrapy's about our requests.

    def _unwrap_after(self, exchange: _Exchange) -> None:
        """Handle no more signals if this exchange was the last one whose transfer had not ended."""
        self._under_way.discard(exchange)
        # Another component may have wrapped ours: to take ours out would take that out, too.
        if not self._under_way and self._crawler.signals.send_catch_log is self._wrapper:
            self._crawler.signals.send_catch_log = self._wrapper.args[0]  # type: ignore[method-assign]
            self._wrapper = None

    def _signal(
        self,
        send: Callable[..., list[tuple[Any, Any]]],
        signal: object = None,
        **named: Any,  # noqa: ANN401 - as Scrapy has it
    ) -> list[tuple[Any, Any]]:
        """Send a signal, as Scrapy does; handle it afterwards, if it is about an exchange of ours.

        A spider's handlers may not stop our transfers: a StopDownload that one raises is left out
        of the answers from which download handlers see whether to go on.
        """
        answers = send(signal, **named)
        handle = self._handlers.get(id(signal))
        if handle is None or MARK not in getattr(named.get("request"), "meta", ()):
            return answers
        answers = [
            answer
            for answer in answers
            if not isinstance(getattr(answer[1], "value", None), StopDownload)
        ]
        try:
            if handle(named["request"].meta[MARK], **named):
                answers.append((handle, Failure(StopDownload(fail=False))))  # type: ignore[no-untyped-call]  # Twisted's
        except Exception:
            text = "A signal of %s could not be handled: the crawl goes on"
            logger.exception(text, named["request"])
        return answers

    def _reached(self, exchange: _Exchange, request: Request, **_: object) -> None:
        """Note that a request, or its retry, joins the queue of its slot in the downloader.

        The slot has a place more until the answer comes: a robots.txt that hangs delays no pages.
        """
        exchange.request = request
        exchange.codings = ()
        exchange.taken = 0
        exchange.stopped = False
        exchange.unanswered = True
        exchange.take_back = _scrapy.one_place_more(self._crawler, request)

    def _headers_received(self, exchange: _Exchange, headers: Headers, **_: object) -> None:
        exchange.codings = headers.getlist(b"Content-Encoding")

    def _bytes_received(self, exchange: _Exchange, data: bytes, **_: object) -> bool:
        """Count what has come, and return whether the transfer is to be stopped."""
        if not exchange.taken and data.startswith(GZIP_MAGIC):
            exchange.codings = exchange.codings or (b"gzip",)
        exchange.taken += len(data)
        # How long coded data become, shows when they are decoded, which has a limit of its own.
        enough = self._limit * MAX_EXPANSION + 1 if exchange.codings else self._limit
        exchange.stopped = exchange.taken >= enough
        return exchange.stopped

    def _response_downloaded(
        self, exchange: _Exchange, request: Request, response: Response, **_: object
    ) -> None:
        self._left(exchange)
        exchange.unanswered = False
        # Without the header, HttpCompressionMiddleware ignores the body: it would drop a body
        # that gets longer than DOWNLOAD_MAXSIZE, or decode it without a bound.
        exchange.codings = response.headers.getlist(b"Content-Encoding")
        response.headers.pop(b"Content-Encoding", None)
        self._crawl.sent(request)

    def _left(self, exchange: _Exchange, **_: object) -> None:
        """Take back the additional place of the slot, unless that was done before."""
        if exchange.take_back is not None:
            exchange.take_back()
            exchange.take_back = None
        if exchange.over:
            self._unwrap_after(exchange)


class Routes:
    """Gives the routes of the requests of a crawl.

    A robots.txt is the same through every proxy. A failure without an answer may be the fault of
    the proxy, or of the account: it closes the site for the requests of that route only.
    """

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._environment = bool(getproxies())

    def of(self, request: Request | None) -> Route:
        """Return the route of a request: the proxy of its meta, or that of the environment.

        For FTP it is the account of the meta, if that names a user: Scrapy's handler uses no proxy.
        """
        if request is None:
            return None
        if has_account(request):
            return f"{request.meta['ftp_user']} {request.meta.get('ftp_password')}"
        if "proxy" not in request.meta and self._environment:
            chooser = self._crawler.get_downloader_middleware(HttpProxyMiddleware)
            request = Request(request.url)
            if chooser is not None:
                HttpProxyMiddleware.process_request(chooser, request)
        proxy = request.meta.get("proxy")
        if not proxy:
            return None
        credentials = request.headers.get(b"Proxy-Authorization")
        return str(proxy) if credentials is None else f"{proxy} {credentials.decode('latin-1')}"

    def usual(self, request: Request) -> Route:
        """Return the route that a request takes if it names none."""
        return self.of(Request(request.url)) if self._environment else None


def has_account(request: Request) -> bool:
    """Whether a request is for FTP, and names the user that it is made for."""
    return request.meta.get("ftp_user") is not None and urlparse_cached(request).scheme == "ftp"


def proxy_of(request: Request | None) -> str | None:
    """Return the proxy that a request was sent through, without credentials, for log lines."""
    proxy = None if request is None else request.meta.get("proxy")
    return _USERINFO.sub(lambda match: match[1] or "", str(proxy)) if proxy else None


def through(access: Unreachable | Local, request: Request | None) -> Unreachable | Local:
    """Return a failure with the name of its proxy, if the request had one.

    It says nothing about the site then. Nor does one of a request with an account of its own.
    """
    proxy = proxy_of(request)
    if request is None or isinstance(access, Local):
        return access
    if proxy is not None:
        return access._replace(cause=f"{access.cause}, through proxy {proxy}", route=True)
    return access._replace(route=True) if has_account(request) else access
