"""Find the agent whose rules apply to a request.

Its name comes from the request meta, the spider, the settings or the User-Agent header, in that
order. Names are parsed by `core/agents.py`.
"""

import logging

from scrapy import Request, Spider
from scrapy.crawler import Crawler
from scrapy.http import Headers
from scrapy.settings import BaseSettings
from scrapy.utils.python import to_unicode

from scrapy_robots_rfc.core.agents import (
    ACCEPTED,
    NO_AGENT,
    USER_AGENT_KEY,
    Agent,
    is_token,
    parse_agent,
)
from scrapy_robots_rfc.errors import AgentError, SettingError

logger: logging.Logger = logging.getLogger(__name__)

# Meta key of our robots.txt requests for the User-Agent header that they had when they reached us.
_HEADER_BEFORE = "_robots_rfc_agent"


class UserAgents:
    """Finds the agents for a crawl's requests.

    :param setting: the agent from ROBOTSTXT_USER_AGENT, if any.
    :raises SettingError: the spider's `robotstxt_user_agent` is invalid.
    """

    def __init__(self, crawler: Crawler, setting: Agent | None) -> None:
        self._crawler = crawler
        self._setting = setting
        self._warned = False
        attribute = self._spider_attribute()
        try:
            parse_agent(attribute)  # only check it, because the spider may still change it
        except TypeError:
            key = f"the spider's {USER_AGENT_KEY}"
            raise SettingError(key, attribute, f"{ACCEPTED}, or None") from None
        # The agent for requests without a User-Agent header. It may change until the spider opens.
        self._default = agent_of_header(default_header(crawler.settings, crawler.spider))

    def of(self, request: Request) -> Agent:
        """Return the agent from the request's meta, the spider, the setting or the header.

        If there is no header yet, Scrapy will add its default header after our middleware.

        :raises AgentError: the `robotstxt_user_agent` of the request or the spider is neither a
            string nor a list of strings.
        """
        named = request.meta.get(USER_AGENT_KEY) or getattr(
            self._crawler.spider, USER_AGENT_KEY, None
        )
        agent = self._setting
        if named:
            try:
                agent = parse_agent(named) or agent  # a blank name counts as none
            except TypeError:
                raise AgentError(
                    f"{USER_AGENT_KEY} is {named!r}, but it must be {ACCEPTED}"
                ) from None
        if agent is not None:
            return agent
        header = request.headers.get(b"User-Agent")
        return agent_of_header(header) if header else self._default

    def default(self) -> Agent:
        """Return the agent for requests that don't name one."""
        return parse_agent(self._spider_attribute()) or self._setting or self._default

    def check_tokens(self, spider: Spider) -> None:
        """Warn about problematic product tokens.

        Also read the default header again, which the spider may have changed since the start.
        """
        header = default_header(self._crawler.settings, spider)
        self._default = agent_of_header(header)
        # Scrapy also accepts a list from the spider.
        values = Headers({"User-Agent": header or ""}).getlist("User-Agent")
        shown = to_unicode(b", ".join(values), errors="replace")
        agent = self.default()
        extra = {"spider": spider}
        if not agent.tokens:
            logger.warning(
                "%r does not name a crawler, so only the '*' group of a robots.txt applies; set"
                " ROBOTSTXT_USER_AGENT to your crawler's name, and USER_AGENT to a string that"
                " contains it",
                agent.identification, extra=extra,
            )  # fmt: skip
        for token in agent.tokens:
            if not is_token(token):
                logger.warning(
                    "%r is not a product token, which only contains A-Z, a-z, '_' and '-' (RFC"
                    " 9309, 2.2.1), so few site owners name it in a robots.txt; set"
                    " ROBOTSTXT_USER_AGENT to a product token, and USER_AGENT to a string that"
                    " contains it",
                    token, extra=extra,
                )  # fmt: skip
            # The header names the crawler, but a token may name a purpose, such as `indexer`.
            elif token.lower() not in shown.lower() and not _names_purpose(token):
                logger.warning(
                    "%r is not in the User-Agent header %r (RFC 9309, 2.2.1), so site owners cannot"
                    " tell which rules apply to this crawler; set USER_AGENT to a string that"
                    " contains %r",
                    token, shown, token, extra=extra,
                )  # fmt: skip

    def save_header(self, request: Request) -> None:
        """Save the User-Agent header of our robots.txt request for `check_header`.

        This isn't needed if the setting or the spider names the agent instead of the header.
        """
        if not self._warned and self._setting is None and self._spider_attribute() is None:
            request.meta[_HEADER_BEFORE] = request.headers.get(b"User-Agent") or b""

    def check_header(self, request: Request) -> None:
        """Warn once if a later middleware changed the User-Agent header to name another agent.

        Pages are checked against the rules for the agent in the header before that, which
        `save_header` has saved.
        """
        before: bytes | None = request.meta.get(_HEADER_BEFORE)
        if self._warned or before is None:
            return
        header = request.headers.get(b"User-Agent") or b""
        # `before` is usually empty, because Scrapy adds its default header after our middleware. If
        # the header is empty as well, another middleware has removed it, which may matter.
        if header and header == before:
            return
        assumed = agent_of_header(before) if before else self._default  # as in `of`
        sent = agent_of_header(header)
        if [token.lower() for token in sent.tokens] == [each.lower() for each in assumed.tokens]:
            return
        self._warned = True
        logger.warning(
            "%s was requested with the User-Agent header %r, but pages are checked against the"
            " rules for %s, because a downloader middleware after RfcRobotsTxtMiddleware changed"
            " the header; set ROBOTSTXT_USER_AGENT to your crawler's name, and send headers that"
            " contain it",
            request.url,
            header.decode("utf-8", "replace"),
            " and ".join(map(repr, assumed.tokens)) or "'*'",
            extra={"spider": self._crawler.spider},
        )

    def _spider_attribute(self) -> object:
        """Return `robotstxt_user_agent`, which may be a property that raises any exception."""
        return getattr(self._crawler.spider, USER_AGENT_KEY, None)


def agent_of_header(header: str | bytes | None) -> Agent:
    """Return the agent that a User-Agent header names, or `NO_AGENT` if it names none."""
    return parse_agent(header) or NO_AGENT


def _names_purpose(token: str) -> bool:
    """Return whether a token names a purpose instead of a crawler, like `indexer` in Gemini."""
    from scrapy_robots_rfc.core.gemini import VIRTUAL_AGENTS  # noqa: PLC0415 - few crawls need it

    return token.lower() in VIRTUAL_AGENTS


def default_header(settings: BaseSettings, spider: Spider | None = None) -> str | bytes | None:
    """Return the User-Agent header that Scrapy adds to requests without one.

    :param spider: the spider, which may define its own `user_agent`.
    """
    headers = Headers(settings.getdict("DEFAULT_REQUEST_HEADERS"))
    return headers.get(b"User-Agent") or getattr(spider, "user_agent", settings.get("USER_AGENT"))
