"""The product tokens that a request is judged by: from its meta, the spider, the settings or its header, in this order.

See `core/agents.py` for how tokens are read.
"""

from __future__ import annotations

import logging

from scrapy import Request, Spider
from scrapy.crawler import Crawler
from scrapy.settings import BaseSettings

from scrapy_robots_rfc.core.agents import (
    ACCEPTED,
    NOBODY,
    USER_AGENT_KEY,
    Agent,
    agent_of,
    invalid_reason,
)
from scrapy_robots_rfc.errors import AgentError, SettingError

logger: logging.Logger = logging.getLogger(__name__)

# The meta key of our requests for a robots.txt. Its value is the agent by their header before later
# middlewares see it.
_ASSUMED = "_robots_rfc_agent"


class UserAgents:
    """The agents of a crawl's requests.

    :param setting: the agent that ROBOTSTXT_USER_AGENT names.
    :raises SettingError: the spider's `robotstxt_user_agent` is not accepted.
    """

    def __init__(self, crawler: Crawler, setting: Agent | None) -> None:
        self._crawler = crawler
        self._setting = setting
        self._warned = False
        spider = self._of_spider
        try:
            agent_of(spider)
        except TypeError:
            raise SettingError(
                f"the spider's {USER_AGENT_KEY}", spider, f"{ACCEPTED}, or None"
            ) from None
        # The User-Agent header of requests without one; it may change until the spider opens.
        self._set_default(default_header(crawler.settings, crawler.spider))

    def of(self, request: Request) -> Agent:
        """Return the agent of a request.

        :raises AgentError: its meta `robotstxt_user_agent` is neither a string nor a list of
            strings.
        """
        meta, spider = request.meta.get(USER_AGENT_KEY), self._of_spider
        try:
            agent = None if meta is None and spider is None else agent_of(meta) or agent_of(spider)
        except TypeError:
            wrong = meta if meta is not None else spider
            raise AgentError(f"{USER_AGENT_KEY} is {wrong!r}; it must be {ACCEPTED}") from None
        return agent or self._setting or self._of_header(request)

    def default(self) -> Agent:
        """Return the agent of a request that has no name of its own."""
        return agent_of(self._of_spider) or self._setting or self._of_header(None)

    def expected(self) -> Agent:
        """Do what `default` does, before a page is judged.

        Then an error of the spider's property reaches the user.
        """
        try:
            return self.default()
        except Exception:  # noqa: BLE001 - the property is the user's
            return NOBODY

    def opened(self, spider: Spider) -> None:
        """Read the default header again when the spider opens.

        Warn of tokens that site owners cannot know.
        """
        self._set_default(default_header(self._crawler.settings, spider))
        warning = self.advice()
        if warning is not None:
            logger.warning(warning, extra={"spider": spider})

    def advice(self) -> str | None:
        """Return what is wrong with the tokens of the crawl, and what to set instead.

        ``None`` if nothing is wrong.
        """
        agent, header = self.default(), self._default_header or ""
        if isinstance(header, bytes):
            header = header.decode("utf-8", "replace")
        if not agent.tokens:
            source = (
                "ROBOTSTXT_USER_AGENT" if self._configured else f"the User-Agent header {header!r}"
            )
            return (
                f"No product token can be derived from {source}: only the '*' group of a robots.txt applies. "
                "Set ROBOTSTXT_USER_AGENT to your crawler's name, and USER_AGENT to a string that contains it."
            )
        found = []
        for token in agent.tokens:
            reason = invalid_reason(token)
            if reason is not None:
                found.append(f"{token!r} is no product token: {reason}")
            elif token.lower() not in header.lower() and not _is_virtual(token):
                found.append(
                    f"{token!r} is not in the User-Agent header {header!r} (RFC 9309, 2.2.1)"
                )
        if not found:
            return None
        return (
            f"{'; '.join(found)}. Site owners cannot tell which rules are meant for this crawler: "
            "set ROBOTSTXT_USER_AGENT to its name, and USER_AGENT to a string that contains that name."
        )

    def passes(self, request: Request) -> None:
        """Take note of the agent of our request for a robots.txt, by the header that it has in our middleware."""
        if not self._warned and not self._configured:
            request.meta[_ASSUMED] = self._of_header(request)

    def sent(self, request: Request) -> None:
        """Compare that agent with the User-Agent header that was sent; warn once if they differ."""
        assumed: Agent | None = request.meta.get(_ASSUMED)
        if self._warned or assumed is None:
            return
        header = request.headers.get(b"User-Agent")
        actual = agent_of(header) or NOBODY
        if [token.lower() for token in actual.tokens] == [
            token.lower() for token in assumed.tokens
        ]:
            return
        self._warned = True
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
    def _of_spider(self) -> object:
        """The spider's own value. It may be a property; if that raises, the user sees the error."""
        return getattr(self._crawler.spider, USER_AGENT_KEY, None)

    def _set_default(self, header: str | bytes | None) -> None:
        self._default_header = header
        self._of_default_header = agent_of(header) or NOBODY

    def _of_header(self, request: Request | None) -> Agent:
        own: bytes | None = None if request is None else request.headers.get(b"User-Agent")
        return agent_of(own) or NOBODY if own else self._of_default_header

    @property
    def _configured(self) -> bool:
        """Whether the user named the agent, so that it does not come from the header."""
        return self._setting is not None or self._of_spider is not None


def _is_virtual(token: str) -> bool:
    """Whether a token is a name for many crawlers, as Gemini has them."""
    from scrapy_robots_rfc.core.gemini import VIRTUAL_AGENTS  # noqa: PLC0415 - few crawls need it

    return token.lower() in VIRTUAL_AGENTS


def default_header(settings: BaseSettings, spider: Spider | None = None) -> str | bytes | None:
    """Return the User-Agent header that Scrapy's middlewares give a request without one.

    :param spider: may have a `user_agent` of its own.
    """
    for name, value in settings.getdict("DEFAULT_REQUEST_HEADERS").items():
        if name.lower() == "user-agent" and value:
            header: str | bytes = value
            return header
    user_agent: str | bytes | None = getattr(spider, "user_agent", settings.get("USER_AGENT"))
    return user_agent
