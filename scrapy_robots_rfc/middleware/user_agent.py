"""The product tokens that a request is judged by.

They come from its meta, the spider, the settings or its header, in this order. `core/agents.py`
reads them.
"""

import logging

from scrapy import Request, Spider
from scrapy.crawler import Crawler
from scrapy.http import Headers
from scrapy.settings import BaseSettings
from scrapy.utils.python import to_unicode

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
        # By the User-Agent header of requests without one; it may change until the spider opens.
        self._default = agent_of(default_header(crawler.settings, crawler.spider)) or NOBODY

    def of(self, request: Request) -> Agent:
        """Return the agent of a request.

        :raises AgentError: its meta `robotstxt_user_agent` is neither a string nor a list of
            strings.
        """
        named = request.meta.get(USER_AGENT_KEY) or getattr(
            self._crawler.spider, USER_AGENT_KEY, None
        )
        agent = self._setting
        if named:
            try:
                agent = agent_of(named) or agent
            except TypeError:
                raise AgentError(f"{USER_AGENT_KEY} is {named!r}; it must be {ACCEPTED}") from None
        if agent is not None:
            return agent
        header = request.headers.get(b"User-Agent")
        return agent_of(header) or NOBODY if header else self._default

    def default(self) -> Agent:
        """Return the agent of a request that has no name of its own."""
        return agent_of(self._of_spider()) or self._setting or self._default

    def opened(self, spider: Spider) -> None:
        """Read the default header again when the spider opens.

        Warn of tokens that site owners cannot know.
        """
        header = default_header(self._crawler.settings, spider)
        self._default = agent_of(header) or NOBODY
        shown = to_unicode(header or "", errors="replace")
        agent = self.default()
        extra = {"spider": spider}
        if not agent.tokens:
            logger.warning(
                "No product token can be derived from %r: only the '*' group of a robots.txt"
                " applies. Set ROBOTSTXT_USER_AGENT to your crawler's name, and USER_AGENT to a"
                " string that contains it.",
                agent.identification, extra=extra,
            )  # fmt: skip
        for token in agent.tokens:
            if not is_token(token):
                logger.warning(
                    "%r is not a product token, which has only A-Z, a-z, '_' and '-' (RFC 9309,"
                    " 2.2.1): few site owners name it in a robots.txt. Set ROBOTSTXT_USER_AGENT to"
                    " a product token, and USER_AGENT to a string that contains that name.",
                    token, extra=extra,
                )  # fmt: skip
            elif token.lower() not in shown.lower() and not _is_virtual(token):
                logger.warning(
                    "%r is not in the User-Agent header %r (RFC 9309, 2.2.1): site owners cannot"
                    " tell which rules are meant for this crawler. Set ROBOTSTXT_USER_AGENT to its"
                    " name, and USER_AGENT to a string that contains that name.",
                    token, shown, extra=extra,
                )  # fmt: skip

    def passes(self, request: Request) -> None:
        """Note the agent by the header that our request for a robots.txt has now."""
        if not self._warned and self._setting is None and self._of_spider() is None:
            request.meta[_ASSUMED] = agent_of(request.headers.get(b"User-Agent")) or self._default

    def sent(self, request: Request) -> None:
        """Compare that agent with the User-Agent header that was sent; warn once if they differ."""
        assumed: Agent | None = request.meta.get(_ASSUMED)
        if self._warned or assumed is None:
            return
        header = request.headers.get(b"User-Agent") or b""
        sent = agent_of(header) or NOBODY
        if [token.lower() for token in sent.tokens] == [each.lower() for each in assumed.tokens]:
            return
        self._warned = True
        logger.warning(
            "%s was asked for with the User-Agent header %r, and pages are judged by the rules for"
            " %s: a downloader middleware after RfcRobotsTxtMiddleware changes the header. Set"
            " ROBOTSTXT_USER_AGENT to your crawler's name, and have each header that is sent"
            " contain that name.",
            request.url,
            header.decode("utf-8", "replace"),
            " and ".join(map(repr, assumed.tokens)) or "'*'",
            extra={"spider": self._crawler.spider},
        )

    def _of_spider(self) -> object:
        """Return the spider's own value. It may be a property; the user sees what that raises."""
        return getattr(self._crawler.spider, USER_AGENT_KEY, None)


def _is_virtual(token: str) -> bool:
    """Whether a token is a name for many crawlers, as Gemini has them."""
    from scrapy_robots_rfc.core.gemini import VIRTUAL_AGENTS  # noqa: PLC0415 - few crawls need it

    return token.lower() in VIRTUAL_AGENTS


def default_header(settings: BaseSettings, spider: Spider | None = None) -> str | bytes | None:
    """Return the User-Agent header that Scrapy's middlewares give a request without one.

    :param spider: may have a `user_agent` of its own.
    """
    headers = Headers(settings.getdict("DEFAULT_REQUEST_HEADERS"))
    return headers.get(b"User-Agent") or getattr(spider, "user_agent", settings.get("USER_AGENT"))
