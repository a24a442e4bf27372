"""The product tokens that a request is judged by.

They come from its meta, the spider, the settings or its header, in this order. `core/agents.py`
reads them.
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
    is_token,
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
        spider = self._of_spider()
        try:
            agent_of(spider)
        except TypeError:
            key = f"the spider's {USER_AGENT_KEY}"
            raise SettingError(key, spider, f"{ACCEPTED}, or None") from None
        # The User-Agent header of requests without one; it may change until the spider opens.
        self._set_default(default_header(crawler.settings, crawler.spider))

    def of(self, request: Request) -> Agent:
        """Return the agent of a request.

        :raises AgentError: its meta `robotstxt_user_agent` is neither a string nor a list of
            strings.
        """
        meta = request.meta.get(USER_AGENT_KEY)
        spider = getattr(self._crawler.spider, USER_AGENT_KEY, None)  # see `_of_spider`
        if meta is None and spider is None:
            return self._setting or self._of_header(request)
        try:
            agent = agent_of(meta) or agent_of(spider)
        except TypeError:
            wrong = meta if meta is not None else spider
            raise AgentError(f"{USER_AGENT_KEY} is {wrong!r}; it must be {ACCEPTED}") from None
        return agent or self._setting or self._of_header(request)

    def default(self) -> Agent:
        """Return the agent of a request that has no name of its own."""
        return agent_of(self._of_spider()) or self._setting or self._default

    def expected(self) -> Agent:
        """Do what `default` does, but pass over an error of the spider's property.

        The next page that is judged shows it to the user.
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
        agent = self.default()
        header = self._default_header or ""
        if isinstance(header, bytes):
            header = header.decode("utf-8", "replace")
        if not agent.tokens:
            source = f"the User-Agent header {header!r}"
            if self._is_configured():
                source = "ROBOTSTXT_USER_AGENT"
            return (
                f"No product token can be derived from {source}: only the '*' group of a robots.txt"
                " applies. Set ROBOTSTXT_USER_AGENT to your crawler's name, and USER_AGENT to a"
                " string that contains it."
            )
        found = []
        for token in agent.tokens:
            if not is_token(token):
                text = f"{token!r} is no product token, which has only A-Z, a-z, '_' and '-'"
                found.append(text)
            elif token.lower() not in header.lower() and not _is_virtual(token):
                text = f"{token!r} is not in the User-Agent header {header!r} (RFC 9309, 2.2.1)"
                found.append(text)
        if not found:
            return None
        return (
            f"{'; '.join(found)}. Site owners cannot tell which rules are meant for this crawler:"
            " set ROBOTSTXT_USER_AGENT to its name, and USER_AGENT to a string that contains that"
            " name."
        )

    def passes(self, request: Request) -> None:
        """Remember the agent by the header that our request for a robots.txt has now."""
        if not self._warned and not self._is_configured():
            request.meta[_ASSUMED] = self._of_header(request)

    def sent(self, request: Request) -> None:
        """Compare that agent with the User-Agent header that was sent; warn once if they differ."""
        assumed: Agent | None = request.meta.get(_ASSUMED)
        if self._warned or assumed is None:
            return
        header = request.headers.get(b"User-Agent")
        sent = agent_of(header) or NOBODY
        if _lower(sent) == _lower(assumed):
            return
        self._warned = True
        logger.warning(
            "%s was asked for with the User-Agent header %r, and pages are judged by the rules for"
            " %s: a downloader middleware after RfcRobotsTxtMiddleware changes the header. Set"
            " ROBOTSTXT_USER_AGENT to your crawler's name, and have each header that is sent"
            " contain that name.",
            request.url,
            (header or b"").decode("utf-8", "replace"),
            " and ".join(map(repr, assumed.tokens)) or "'*'",
            extra={"spider": self._crawler.spider},
        )

    def _of_spider(self) -> object:
        """Return the spider's own value. It may be a property; the user sees what that raises."""
        return getattr(self._crawler.spider, USER_AGENT_KEY, None)

    def _set_default(self, header: str | bytes | None) -> None:
        self._default_header = header
        self._default = agent_of(header) or NOBODY

    def _of_header(self, request: Request) -> Agent:
        own: bytes | None = request.headers.get(b"User-Agent")
        return agent_of(own) or NOBODY if own else self._default

    def _is_configured(self) -> bool:
        """Whether the user named the agent, so that it does not come from the header."""
        return self._setting is not None or self._of_spider() is not None


def _lower(agent: Agent) -> list[str]:
    return [token.lower() for token in agent.tokens]


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
