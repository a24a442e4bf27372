"""Tells how the connections of robots.txt transfers ended, because some download handlers of Scrapy do not.

`_scrapy.py` knows the handlers' attributes that are used here. See `download.py` for what follows.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary, WeakSet

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
        # The connection whose octets are being handed over; connection -> the request that the last octets were for.
        self._delivering: object = None
        self._requests: WeakKeyDictionary[object, Request] = WeakKeyDictionary()
        self._reset: WeakSet[Request] = WeakSet()

    def watch(self, handler: object) -> None:
        """Watch the connections that a download handler makes from now on."""
        factory, read = self._factory, self._read
        _scrapy.watch(self._crawler, handler, lambda stock: partial(factory, stock), lambda stock: partial(read, stock))

    def received(self, request: Request) -> None:
        """Take note which request the octets are for that its download handler passes on right now."""
        if self._delivering is not None:
            self._requests[self._delivering] = request

    def was_reset(self, request: Request | None) -> bool:
        """Whether the connection of a request was reset before it was used for another. With aiohttp, see `_read`."""
        return request in self._reset

    def _factory(self, factory: Callable[..., Any], *args: Any) -> Any:  # noqa: ANN401 - Twisted's
        made = factory(*args)
        build = made.buildProtocol

        def watched(address: object) -> Any:  # noqa: ANN401 - as above
            protocol = build(address)
            if protocol is not None:
                self._watch(protocol)
            return protocol

        made.buildProtocol = watched
        return made

    def _watch(self, protocol: Any) -> None:  # noqa: ANN401 - Twisted's
        make, receive = protocol.makeConnection, protocol.dataReceived

        def received(data: bytes) -> None:
            self._delivering = protocol
            try:
                receive(data)
            finally:
                self._delivering = None

        def made(transport: Any) -> None:  # noqa: ANN401 - Twisted's
            end = transport.connectionLost

            def ended(reason: Failure) -> None:
                request = self._requests.get(protocol)
                if request is not None and not isinstance(reason.value, ConnectionDone):
                    self._reset.add(request)
                end(reason)

            # Over TLS, the end of the TCP connection counts: many servers leave out that of TLS (close_notify).
            transport.connectionLost = ended
            make(transport)

        protocol.dataReceived, protocol.makeConnection = received, made

    async def _read(self, read: Callable[..., Awaitable[Any]], response: Any, request: Request) -> Any:  # noqa: ANN401 - aiohttp's
        answer = await read(response, request)
        length, coded = response.content_length, "Transfer-Encoding" in response.headers
        watched = self._mark in request.meta and length is None and not coded
        if watched and isinstance(_scrapy.end_of(self._crawler, response), OSError):
            raise ResponseDataLossError("the connection was reset")
        return answer
