"""Fetch a robots.txt by FTP like Scrapy's handler, but with time and size limits."""

import re
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import unquote

from scrapy import Request
from scrapy.core.downloader.handlers.ftp import FTPDownloadHandler
from scrapy.http import Response
from scrapy.settings import BaseSettings
from scrapy.utils.defer import maybe_deferred_to_future
from scrapy.utils.httpobj import urlparse_cached
from twisted.internet.defer import Deferred
from twisted.internet.error import ConnectionDone
from twisted.internet.protocol import ClientCreator, Protocol, connectionDone
from twisted.python.failure import Failure

from scrapy_robots_rfc.core.text import shorten
from scrapy_robots_rfc.errors import BrokenTransferError

# Maximum bytes received on the control connection per transfer. Greetings may be long.
_MAX_REPLIES = 65_536


def adapt(handler: Any, settings: BaseSettings, mark: str, limit: int) -> None:  # noqa: ANN401
    """Make Scrapy's handler fetch our files with `retrieve`. Leave other handlers unchanged."""
    # Subclasses that inherit the method are adapted, too, but not those with a method of their own.
    method = getattr(type(handler), "download_request", None)
    if method is not FTPDownloadHandler.download_request:
        return
    download_page = handler.download_request

    async def download_request(request: Request) -> Response:
        if mark in request.meta:
            return await retrieve(request, settings, limit)
        response: Response = await download_page(request)
        return response

    handler.download_request = download_request


async def retrieve(request: Request, settings: BaseSettings, limit: int) -> Response:
    """Return the response for a robots.txt.

    The status is 200, or 404 if the server reports before the transfer that there is no file.

    :param limit: maximum body size in bytes.
    :raises BrokenTransferError: if the server refuses for any other reason. Twisted may raise other
        exceptions.
    """
    # Import these late, because they install the default reactor.
    from twisted.internet import reactor  # noqa: PLC0415
    from twisted.protocols.ftp import BadResponse, CommandFailed, FTPError  # noqa: PLC0415

    parts = urlparse_cached(request)
    seconds = request.meta["download_timeout"]
    new_creator: Any = ClientCreator  # Twisted's type hints are incomplete
    creator = new_creator(reactor, _new_client, request.meta, settings)
    client = await maybe_deferred_to_future(
        creator.connectTCP(parts.hostname, parts.port or 21, timeout=seconds)
    )
    # The first of these counts: the end of the file, the size limit, or a failure.
    done: Deferred[Any] = Deferred()

    def end(result: object = None) -> None:
        if not done.called:
            done.callback(result)  # a `Failure` is raised where `done` is awaited

    file = _File(limit, end)
    try:
        client.retrieveFile(unquote(parts.path), file).addBoth(end)
        done.addTimeout(seconds, reactor, _timeout)
        await maybe_deferred_to_future(done)
    except FTPError as error:
        # If an earlier command failed, such as the login, `error` contains the `Failure` of it.
        last = error.args[-1] if error.args else None
        reason: Any = last.value if isinstance(last, Failure) else error
        if not isinstance(reason, CommandFailed | BadResponse):  # not a reply from the server
            raise reason from error
        *earlier_lines, line = map(str, reason.args[0])  # the lines of the reply
        # A reply such as "150 Opening" means that the transfer is starting (RFC 959, 5.4).
        has_begun = file.body or any(re.match(r"1\d\d[ -]", text) for text in earlier_lines)
        is_retrieval = reason is error  # rather than an earlier command
        if is_retrieval and not has_begun and line.startswith("550"):
            return Response(request.url, status=404)
        raise BrokenTransferError(f"the FTP server answered {shorten(line)}") from error
    finally:
        client.transport.abortConnection()
    return Response(request.url, body=bytes(file.body[:limit]))


def _timeout(*_: object) -> Failure:
    """Return the failure for a timeout. Unlike the default one, it is one of `TIMEOUT_ERRORS`."""
    failure: Failure = Failure(TimeoutError())  # type: ignore[no-untyped-call]
    return failure


def _new_client(meta: Mapping[str, Any], settings: BaseSettings) -> Any:  # noqa: ANN401
    """Return an FTP client that uses a request's account and limits the size of replies."""
    from twisted.protocols.ftp import FTPClient  # noqa: PLC0415

    user = meta.get("ftp_user")
    password = meta.get("ftp_password", settings["FTP_PASSWORD"])
    client: Any = FTPClient(  # type: ignore[no-untyped-call]  # Twisted's
        settings["FTP_USER"] if user is None else str(user),
        None if password is None else str(password),
        passive=int(bool(meta.get("ftp_passive", settings["FTP_PASSIVE_MODE"]))),
    )
    # The client keeps all lines of a reply in memory, so close the connection if it gets too many.
    total_size = 0
    handle_replies = client.dataReceived

    def handle_limited(data: bytes) -> None:
        nonlocal total_size
        total_size += len(data)
        if total_size > _MAX_REPLIES:
            client.transport.abortConnection()  # so no more data arrives
        handle_replies(data)

    client.dataReceived = handle_limited
    return client


class _File(Protocol):
    """A protocol that collects a file's bytes.

    :param ended: called at the limit, or with a failure if the connection broke. It isn't called at
        the end of the file, which `FTPClient.retrieveFile` reports.
    """

    def __init__(self, limit: int, ended: Callable[..., object]) -> None:
        self.body = bytearray()
        self.ended = ended
        self._limit = limit

    def dataReceived(self, data: bytes) -> None:  # noqa: N802 - Twisted's name
        """Add to the body, up to the limit."""
        self.body += data
        if len(self.body) >= self._limit:
            self.ended()

    def connectionLost(self, reason: Failure = connectionDone) -> None:  # noqa: N802
        """Report a broken connection. A connection that was closed properly ends the file."""
        if not isinstance(reason.value, ConnectionDone):
            self.ended(reason)
