"""Naming: whom the requests of a crawl are made as, by request, spider, settings and header, in this order.

In here: where Scrapy keeps names. What makes a product token of a name is `identity.py`.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from scrapy_robots_rfc.errors import AgentError, SettingError
from scrapy_robots_rfc.identity import ACCEPTED, KEY, NOBODY, Agent, Agents, advice, agent_of, user_agent_among

if TYPE_CHECKING:
    from scrapy import Request, Spider
    from scrapy.crawler import Crawler
    from scrapy.settings import BaseSettings

logger = logging.getLogger(__name__)

# The meta key, in a request for a robots.txt, of the agent that its header stands for where pages are judged.
_ASSUMED = "_robots_rfc_agent"


class Naming:
    """The agents of a crawl's requests.

    :param setting: the agent that ROBOTSTXT_USER_AGENT names.
    :raises SettingError: the spider's `robotstxt_user_agent` is not accepted.
    """

    def __init__(self, crawler: Crawler, setting: Agent | None) -> None:
        self._crawler = crawler
        self._setting = setting
        self._agents = Agents(setting)
        self._told = False
        _check(crawler.spider)
        self._agents.default_header = default_header(crawler.settings, crawler.spider)

    def of(self, request: Request) -> Agent:
        """Return the agent of a request.

        :raises AgentError: its meta `robotstxt_user_agent` is neither a string nor a list of strings.
        """
        meta = request.meta.get(KEY)
        spider = getattr(self._crawler.spider, KEY, None)  # may be a property, whose own errors are the user's to see
        try:
            return self._agents.of(meta, spider, request.headers.get)
        except TypeError:
            raise AgentError(f"{KEY} is {meta if meta is not None else spider!r}; it must be {ACCEPTED}") from None

    def default(self) -> Agent:
        """Return the agent of a request that brings no name of its own."""
        return self._agents.of(None, getattr(self._crawler.spider, KEY, None), lambda _: None)

    def opened(self, spider: Spider) -> None:
        """Take the header as it is now; warn once about tokens that site owners cannot know."""
        self._agents.default_header = default_header(self._crawler.settings, spider)
        warning = self.advice(spider)
        if warning is not None:
            logger.warning(warning, extra={"spider": spider})

    def advice(self, spider: Spider | None) -> str | None:
        """Return what is wrong with the tokens of a crawl; ``None`` where nothing is."""
        header = self._agents.default_header or ""
        text = header.decode("utf-8", "replace") if isinstance(header, bytes) else header
        configured = self._setting is not None or getattr(spider, KEY, None) is not None
        return advice(self.default(), text, configured=configured)

    def passes(self, request: Request) -> None:
        """Take note of whom a request for a robots.txt is made as, as far as can be seen where pages are judged."""
        if not self._told and not self._configured:
            request.meta[_ASSUMED] = self._agents.of(None, None, request.headers.get)

    def sent(self, request: Request) -> None:
        """Compare that with the User-Agent header that was sent; warn once where pages are judged as somebody else."""
        assumed: Agent | None = request.meta.get(_ASSUMED)
        if self._told or assumed is None:
            return
        header = request.headers.get(b"User-Agent")
        actual = agent_of(header) or NOBODY
        if [token.lower() for token in actual.tokens] == [token.lower() for token in assumed.tokens]:
            return
        self._told = True
        logger.warning(
            "%s was asked for with the User-Agent header %r, and pages are judged by the rules for %s: a downloader "
            "middleware after RfcRobotsTxtMiddleware changes the header. Set ROBOTSTXT_USER_AGENT to your crawler's "
            "name, and have each header that is sent contain that name.",
            request.url,
            (header or b"").decode("utf-8", "replace"),
            " and ".join(map(repr, assumed.tokens)) or "'*'",
            extra={"spider": self._crawler.spider},
        )

    @property
    def _configured(self) -> bool:
        """Whether the user named the agent, so that it does not come from the header."""
        return self._setting is not None or getattr(self._crawler.spider, KEY, None) is not None


def default_header(settings: BaseSettings, spider: Spider | None = None) -> str | bytes | None:
    """Return the User-Agent header that Scrapy's middlewares give a request without one.

    :param spider: may have a `user_agent` of its own.
    """
    header = user_agent_among(settings.getdict("DEFAULT_REQUEST_HEADERS"))
    if header is not None:
        return header
    user_agent: str | bytes | None = getattr(spider, "user_agent", settings.get("USER_AGENT"))
    return user_agent


def _check(spider: Spider | None) -> None:
    value = getattr(spider, KEY, None)
    try:
        agent_of(value)
    except TypeError:
        raise SettingError(f"the spider's {KEY}", value, f"{ACCEPTED}, or None") from None
