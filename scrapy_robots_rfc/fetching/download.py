"""Send one robots.txt request through Scrapy's downloader.

Scrapy handles proxies, retries, TLS and stats. This module creates the request, limits the body
size, checks that the body is complete, and decodes it. `service.py` follows redirects.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Self
from urllib.parse import urlsplit

from scrapy import signals as scrapy_signals
from scrapy.crawler import Crawler
from scrapy.exceptions import NotSupported, StopDownload
from scrapy.http import Headers, Request, Response
from scrapy.http.request import NO_CALLBACK
from scrapy.utils.httpobj import urlparse_cached
from scrapy.utils.misc import load_object
from twisted.python.failure import Failure

from scrapy_robots_rfc import _scrapy, signals
from scrapy_robots_rfc._runtime import CANCELLED
from scrapy_robots_rfc.cache.entry import Validators
from scrapy_robots_rfc.core.text import message_of
from scrapy_robots_rfc.errors import BrokenTransferError, ComponentError
from scrapy_robots_rfc.fetching.decoding import GZIP_MAGIC, MAX_EXPANSION, without_codings
from scrapy_robots_rfc.fetching.pending import PendingFetch
from scrapy_robots_rfc.fetching.routes import Routes
from scrapy_robots_rfc.optional import ADAPT_FTP
from scrapy_robots_rfc.policy.origins import Answers
from scrapy_robots_rfc.settings import Settings

logger: logging.Logger = logging.getLogger(__name__)

#: Meta key that marks robots.txt requests. Its value is the `_Exchange`.
MARK = "_robots_rfc"

#: Meta for all robots.txt requests.
META: dict[str, Any] = {
    "dont_obey_robotstxt": True,  # robots.txt rules don't apply to robots.txt itself
    "allow_offsite": True,  # a redirect may lead to any host (RFC 9309, 2.3.1.2)
    "dont_redirect": True,  # policy/access.py decides which redirects to follow
    "dont_cache": True,  # the HTTP cache ignores the RFC's 24-hour limit
    "dont_merge_cookies": True,  # only send cookies received during the fetch
    "download_maxsize": 0,  # longer files are truncated instead of rejected
    "download_warnsize": 0,
    # Truncated pages may be fine for the user, but half a file must not allow anything.
    "download_fail_on_dataloss": True,
    # To start a session, scrapy-zyte-api may request a page, which would wait for this robots.txt.
    "zyte_api_session_enabled": False,
}

# Meta keys for an FTP account, which must only be used on its own host.
_FTP_ACCOUNT = ("ftp_user", "ftp_password", "ftp_passive")


@dataclass(slots=True, eq=False, repr=False)
class _Exchange:
    """The state of one exchange, which retries share through their meta.

    :param fetch: the fetch that it belongs to.
    :param codings: the response's Content-Encoding header values.
    :param received: number of body bytes received so far.
    :param has_enough: True if we stopped the transfer because the rest isn't needed.
    :param was_held: True until the request has passed all middlewares.
    :param has_connection: False if the pool may have had no connection left for the request.
    :param is_unanswered: True from when the request reaches its downloader slot until a response
        comes from there. A failed download leaves it True.
    """

    fetch: PendingFetch
    codings: Sequence[bytes] = ()
    received: int = 0
    has_enough: bool = False
    was_held: bool = True
    has_connection: bool = True
    is_unanswered: bool = False

    def __deepcopy__(self, _memo: object) -> Self:
        return self  # retries share the exchange, even if a middleware copies the meta deeply


class Downloader:
    """Requests robots.txt files through a crawl's engine.

    :param settings: transfers are cut off after `max_size` decoded bytes.
    :param on_answer: called with each request that was answered, or was cancelled after it was
        sent.
    """

    def __init__(
        self,
        crawler: Crawler,
        settings: Settings,
        routes: Routes,
        on_answer: Callable[[Request], object],
    ) -> None:
        self._crawler = crawler
        self._on_answer = on_answer
        self._routes = routes
        # One byte past the limit, so that the parser can tell that the file was truncated.
        self._limit = settings.max_size + 1
        self._meta = {**META, "download_timeout": settings.timeout}
        self._pool_size = _scrapy.small_pool_size(crawler)
        if settings.unreachable_backoff:  # our own retries replace Scrapy's
            self._meta["dont_retry"] = True
        # The schemes whose download handlers still have to be adapted to our requests.
        self._unadapted = {
            name for name, scheme in settings.schemes.items() if scheme.answers is Answers.FTP
        }
        # Signal -> the method that `_signal` calls if the signal is about one of our requests.
        self._handlers: dict[object, Callable[..., bool | None]] = {
            scrapy_signals.request_reached_downloader: self._reached,
            scrapy_signals.headers_received: self._headers_received,
            scrapy_signals.bytes_received: self._bytes_received,
            scrapy_signals.response_downloaded: self._response_downloaded,
        }
        # Connected signal handlers would slow down pages more, and couldn't keep a user's handler
        # from stopping our transfers.
        manager: Any = crawler.signals
        manager.send_catch_log = partial(self._signal, manager.send_catch_log)

    def request(self, url: str, fetch: PendingFetch, known: Validators | None) -> Request:
        """Return a request for a robots.txt. A proxy from the environment is added when it is sent.

        :param fetch: the fetch that it belongs to. The request uses the same route as its page.
        :param known: the validators of a cached file, so that the site can answer 304.
        """
        meta = {**self._meta, MARK: _Exchange(fetch)}
        # Scrapy adds Accept-Encoding and the other default headers, as it does for page requests.
        headers: dict[bytes, bytes] = {}
        if known is not None and known.etag is not None:
            headers[b"If-None-Match"] = known.etag
        if known is not None and known.last_modified is not None:
            headers[b"If-Modified-Since"] = known.last_modified
        if fetch.page is not None:
            self.inherit_route(fetch.page, url, meta, headers)
        if url.startswith("ftp:"):
            # Scrapy's handler ignores proxies. So keep HttpProxyMiddleware from adding one from the
            # environment, which would then be blamed for failures.
            meta.setdefault("proxy", None)
        # Higher priority than any page, as in Scrapy's own middleware.
        return Request(url, priority=1000, callback=NO_CALLBACK, meta=meta, headers=headers)

    def inherit_route(
        self, page: Request, url: str, meta: dict[str, Any], headers: dict[bytes, bytes]
    ) -> None:
        """Copy the proxy, local address and FTP account from a page request.

        The `download_slot` isn't copied, because a robots.txt request that hangs would block all
        hosts that share the slot.
        """
        page_meta = page.meta
        if "bindaddress" in page_meta:
            meta["bindaddress"] = page_meta["bindaddress"]
        if "ftp_user" in page_meta and _may_have_account(page, url):
            meta.update((key, page_meta[key]) for key in _FTP_ACCOUNT if key in page_meta)
        if "proxy" not in page_meta:
            return
        # If the page's proxy came from the environment, don't copy it. HttpProxyMiddleware picks
        # one for each redirect, based on the URL scheme.
        environment_route = self._routes.default_route(page)
        if environment_route is not None and environment_route == self._routes.of(page):
            return
        meta["proxy"] = page_meta["proxy"]
        # If the page has passed HttpProxyMiddleware, its credentials are in this header.
        credentials = page.headers.get(b"Proxy-Authorization")
        if credentials is not None and meta["proxy"]:
            headers[b"Proxy-Authorization"] = credentials

    async def send(self, request: Request) -> tuple[Response, bytes]:
        """Return the response to a request, with the decoded body if the status is 2xx.

        Any download error is raised.
        """
        exchange: _Exchange = request.meta[MARK]
        response = await self._download(request, exchange)
        return response, self._body(response, exchange)

    async def _download(self, request: Request, exchange: _Exchange) -> Response:
        """Return the response from Scrapy's downloader, and send a signal about the exchange."""
        engine = self._crawler.engine
        assert engine is not None
        response = None
        self._adapt_handler(urlparse_cached(request).scheme)
        # Let Scrapy download one more request, so that this one doesn't take the place of a page.
        # That doesn't help with a small pool, which has no connection for one more request.
        take_back = None if self._pool_size else _scrapy.allow_one_more(self._crawler)
        try:
            response = await engine.download_async(request)
            return response
        except NotSupported as error:  # Scrapy could not load the handler
            scheme = urlparse_cached(request).scheme
            handler = self._crawler.settings.getwithbase("DOWNLOAD_HANDLERS").get(scheme)
            cause = f"DOWNLOAD_HANDLERS[{scheme!r}] = {handler} cannot be used"
            reason = message_of(error).partition(": ")[2]  # after `Unsupported URL scheme 'http': `
            raise ComponentError(cause, f"install or enable what it needs ({reason})") from error
        except CANCELLED:
            current = exchange.fetch.request or request  # a retry is a new request
            if not _scrapy.remove_from_queue(self._crawler, current) and exchange.is_unanswered:
                # It was sent, so the site's interval starts, but there may never be a response.
                self._on_answer(current)
            raise
        finally:
            if take_back is not None:
                take_back()
            if signals.has_receivers(self._crawler.signals, signals.robots_exchanged):
                self._crawler.signals.send_catch_log(
                    signals.robots_exchanged,
                    origin=exchange.fetch.origin,
                    request=exchange.fetch.request or request,
                    response=response,
                    codings=exchange.codings,
                    cut_off=exchange.has_enough,
                )

    def _adapt_handler(self, scheme: str) -> None:
        """Let the handler for a scheme stop at our size limit, if it can't do so by itself (FTP).

        This is done before the first robots.txt request.
        """
        if scheme in self._unadapted:
            self._unadapted.remove(scheme)
            handler = _scrapy.handler_of(self._crawler, scheme)
            load_object(ADAPT_FTP)(handler, self._crawler.settings, MARK, self._limit)

    def _body(self, response: Response, exchange: _Exchange) -> bytes:
        """Return the decoded body of a successful response, or an empty body otherwise."""
        if exchange.is_unanswered:
            # The download failed, and a middleware's process_exception() returned a response. It
            # must not count as the site's response.
            problem = f"a middleware answered {response.status} in place of a download that failed"
            advice = "make its process_exception ignore requests for robots.txt"
            raise ComponentError(problem, advice)
        is_success = response.status // 100 == 2 or response.status // 10 == 2  # 20-29 in Gemini
        # 204 and 205 never have a body, even if their headers describe one (RFC 9110, 15.3).
        if not is_success or response.status in (204, 205):
            return b""
        if "download_stopped" in response.flags and not exchange.has_enough:
            # Another component stopped the transfer, but not with a signal (see `_signal`). The
            # missing part may contain Disallow rules, so the fetch must fail.
            problem, advice = "another component stopped the transfer", "make it ignore robots.txt"
            raise ComponentError(problem, advice)
        # Scrapy's handlers raise an error instead (see `META`), but others may set this flag.
        if "dataloss" in response.flags and not exchange.has_enough:
            raise BrokenTransferError("the transfer was interrupted")
        return without_codings(response.body, exchange.codings, self._limit)

    # Scrapy's signals for our requests.

    def _signal(
        self,
        send: Callable[..., list[tuple[Any, Any]]],
        signal: object = None,
        **named: Any,  # noqa: ANN401 - same as in Scrapy
    ) -> list[tuple[Any, Any]]:
        """Send a signal as Scrapy does, then handle it if it is for a robots.txt request.

        If a signal handler raises StopDownload, the download handler stops the transfer. For our
        transfers, only our own handler may do that, so remove StopDownload from all others.

        :param send: the original `send_catch_log`, which returns pairs of a handler and its result.
            If the handler raised an exception, the result is a `Failure`.
        """
        results = send(signal, **named)
        handle = self._handlers.get(signal)
        if handle is None or MARK not in getattr(named.get("request"), "meta", ()):
            return results
        results = [
            (handler, result)
            for handler, result in results
            if not isinstance(getattr(result, "value", None), StopDownload)
        ]
        try:
            if handle(named["request"].meta[MARK], **named):  # the transfer should stop
                stop = Failure(StopDownload(fail=False))  # type: ignore[no-untyped-call]
                results.append((handle, stop))
        except Exception:
            text = "Cannot handle a signal for %s; the crawl continues"
            logger.exception(text, named["request"])
        return results

    def _reached(self, exchange: _Exchange, request: Request, **_: object) -> None:
        """Reset the exchange, because a request or its retry was added to its slot's queue."""
        exchange.fetch.request = request
        exchange.was_held = False
        exchange.codings = ()
        exchange.received = 0
        exchange.has_enough = False
        exchange.is_unanswered = True
        if self._pool_size:  # this request is among the active ones
            exchange.has_connection = _scrapy.count_active(self._crawler) <= self._pool_size

    def _headers_received(self, exchange: _Exchange, headers: Headers, **_: object) -> None:
        """Keep the codings, because `_bytes_received` stops a coded body later than a plain one."""
        exchange.codings = headers.getlist(b"Content-Encoding")

    def _bytes_received(self, exchange: _Exchange, data: bytes, **_: object) -> bool:
        """Count the bytes of the body, and return whether to stop the transfer."""
        if not exchange.received and not exchange.codings and data.startswith(GZIP_MAGIC):
            # The server omitted the header. `without_codings` finds out by itself.
            exchange.codings = (b"gzip",)
        exchange.received += len(data)
        # The limit is for decoded bytes. A coding may make the body longer, so the limit of a coded
        # one is larger. With one byte more, the decoder can tell that the body was too long.
        enough = self._limit * MAX_EXPANSION + 1 if exchange.codings else self._limit
        exchange.has_enough = exchange.received >= enough
        return exchange.has_enough

    def _response_downloaded(
        self, exchange: _Exchange, request: Request, response: Response, **_: object
    ) -> None:
        """Handle a response, and remove its Content-Encoding so that only we decode the body.

        HttpCompressionMiddleware would drop a body that gets longer than DOWNLOAD_MAXSIZE, or
        decode it without a limit.
        """
        exchange.is_unanswered = False
        # Not all download handlers send `headers_received`, so look here as well.
        exchange.codings = response.headers.getlist(b"Content-Encoding")
        response.headers.pop(b"Content-Encoding", None)
        self._on_answer(request)


def _may_have_account(page: Request, url: str) -> bool:
    """Return whether a robots.txt may be requested with the FTP account of a page.

    That requires the same scheme and host. The port may differ.
    """
    parts = urlsplit(url)
    page_parts = urlparse_cached(page)
    return (parts.scheme, parts.hostname) == (page_parts.scheme, page_parts.hostname)
