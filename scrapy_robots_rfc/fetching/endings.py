"""Tells how the connections of robots.txt transfers ended, because some download handlers of Scrapy do not.

`_scrapy.py` knows the handlers' attributes that are used here. See `download.py` for what follows.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from scrapy.exceptions import ResponseDataLossError
from twisted.internet.error import ConnectionDone

from scrapy_robots_rfc import _scrapy

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from scrapy import Request
    from scrapy.crawler import Crawler
    from twisted.python.failure import Failure


class Endings:
    """Tells whether the connection of an answer was closed in order, or reset.

    A body with neither a length nor chunks ends with its connection. Twisted's handler and aiohttp's take such a body
    for whole even if the connection was reset. httpx raises then, and handlers of the user's own are not watched.

    :param mark: the meta key of the requests that are watched.
    """

    def __init__(self, crawler: Crawler, mark: str) -> None:
        self._crawler, self._mark = crawler, mark
        #: The connection whose octets are being handed over.
        self.delivering: _Connection | None = None
        self._reset: WeakSet[Request] = WeakSet()

    def watch(self, handler: object) -> None:
        """Watch the connections that a download handler makes from now on."""
        _scrapy.watch(self._crawler, handler, partial(partial, self._factory), partial(partial, self._read))

    def received(self, request: Request) -> None:
        """Take note which request the octets are for that its download handler passes on right now."""
        if self.delivering is not None:
            self.delivering.request = request

    def was_reset(self, request: Request | None) -> bool:
        """Whether the connection of a request was reset before it was used for another. With aiohttp, see `_read`."""
        return request in self._reset

    def _factory(self, factory: Callable[..., Any], *args: Any) -> Any:  # noqa: ANN401 - Twisted's
        made = factory(*args)
        build = made.buildProtocol

        def watched(address: object) -> Any:  # noqa: ANN401 - as above
            protocol = build(address)
            if protocol is not None:
                _Connection(protocol, self)
            return protocol

        made.buildProtocol = watched
        return made

    def lost(self, request: Request) -> None:
        """Take note that the connection of a request was reset."""
        self._reset.add(request)

    async def _read(self, read: Callable[..., Awaitable[Any]], response: Any, request: Request) -> Any:  # noqa: ANN401 - aiohttp's
        answer = await read(response, request)
        length, coded = response.content_length, "Transfer-Encoding" in response.headers
        watched = self._mark in request.meta and length is None and not coded
        if watched and isinstance(_scrapy.end_of(self._crawler, response), OSError):
            raise ResponseDataLossError("the connection was reset")
        return answer


class _Connection:
    """A watched connection of Twisted's handler: which request its octets are for, and how it ends.

    Over TLS, the end of the TCP connection counts, because many servers leave out that of TLS (close_notify).
    """

    def __init__(self, protocol: Any, endings: Endings) -> None:  # noqa: ANN401 - Twisted's
        #: The request that the last octets were for.
        self.request: Request | None = None
        self._endings = endings
        protocol.makeConnection = partial(self._made, protocol.makeConnection)
        protocol.dataReceived = partial(self._received, protocol.dataReceived)

    def _made(self, make: Callable[[Any], None], transport: Any) -> None:  # noqa: ANN401 - Twisted's
        transport.connectionLost = partial(self._ended, transport.connectionLost)
        make(transport)

    def _received(self, received: Callable[[bytes], None], data: bytes) -> None:
        self._endings.delivering = self
        try:
            received(data)
        finally:
            self._endings.delivering = None

    def _ended(self, ended: Callable[[Failure], None], reason: Failure) -> None:
        if self.request is not None and not isinstance(reason.value, ConnectionDone):
            self._endings.lost(self.request)
        ended(reason)
