"""Under which product tokens a request is judged (RFC 9309, 2.2.1): from meta, spider, setting or User-Agent header.

In here: the values that users write, to tokens. The tokens of a string are `core/agents.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from scrapy_robots_rfc.core.agents import invalid_reason, is_product_token, product_tokens

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

#: The name of the request meta key and of the spider attribute.
KEY = "robotstxt_user_agent"

ACCEPTED = "a string, or a list of strings in order of preference"

# Identifications whose tokens are kept; a crawl that makes up a User-Agent for every request must not fill the memory.
_KEPT = 1024


@dataclass(frozen=True, slots=True)
class Agent:
    """Who the crawler is, to robots.txt.

    :param tokens: product tokens in order of preference; empty: only the ``*`` group can apply.
    :param identification: the whole string, for parsers other than ours.
    """

    tokens: tuple[str, ...]
    identification: str


def agent_of(value: object) -> Agent | None:
    """Return the agent that a user's value names, or ``None`` for a value that says nothing (``None``, ``""``).

    :param value: a product token, a User-Agent header's value, or a list of those.
    :raises TypeError: it is something else.
    """
    names = _separated(value) if isinstance(value, str) else [value] if isinstance(value, bytes) else value
    if names is None:
        return None
    if not isinstance(names, (list, tuple)) or not all(isinstance(name, (str, bytes)) for name in names):
        raise TypeError(ACCEPTED)
    texts = [name.decode("utf-8", "replace") if isinstance(name, bytes) else name for name in names]
    texts = [text.strip() for text in texts if text.strip()]
    if not texts:
        return None
    tokens = dict.fromkeys(token for text in texts for token in product_tokens(text))
    return Agent(tuple(tokens), texts[0])


def user_agent_among(headers: Mapping[str, str | bytes]) -> str | bytes | None:
    """Return the User-Agent among headers, as those of DEFAULT_REQUEST_HEADERS; ``None`` where there is none."""
    return next((value for name, value in headers.items() if name.lower() == "user-agent" and value), None)


def _separated(value: str) -> list[str]:
    """Tokens of ``foobot-news,foobot``, as the command line gives a list; a User-Agent header's value stays whole."""
    names = [name.strip() for name in value.split(",")]
    return names if all(map(is_product_token, names)) else [value]


class Agents:
    """The agents of a crawl, by what they were made from.

    :param setting: the agent that ROBOTSTXT_USER_AGENT names.
    """

    def __init__(self, setting: Agent | None) -> None:
        self._setting = setting
        #: The User-Agent header of a request that brings none; known when the spider opens.
        self.default_header: str | bytes | None = None
        self._kept: dict[object, Agent | None] = {}

    def of(self, meta: object, spider: object, header: Callable[[bytes], bytes | None]) -> Agent:
        """Return the agent of a request.

        :param meta: its meta ``robotstxt_user_agent``.
        :param spider: the spider's attribute of that name.
        :param header: looks a header of its own up; not called where one of the others names the agent.
        :raises TypeError: `meta` or `spider` is neither a string nor a list of strings.
        """
        for value in (meta, spider):
            if value is not None:
                agent = self._named(value)
                if agent is not None:
                    return agent
        if self._setting is not None:
            return self._setting
        return self._named(header(b"User-Agent") or self.default_header) or NOBODY

    def _named(self, value: object) -> Agent | None:
        key = tuple(value) if isinstance(value, list) else value
        try:
            return self._kept[key]
        except (KeyError, TypeError):
            agent = agent_of(value)
        if len(self._kept) >= _KEPT:
            self._kept.clear()
        self._kept[key] = agent
        return agent


#: A crawl that sends no User-Agent at all.
NOBODY = Agent((), "")


def advice(agent: Agent, header: str, *, configured: bool) -> str | None:
    """Return what is wrong with the tokens of a crawl and what to set, in one text; ``None`` where nothing is (2.2.1).

    :param header: the User-Agent header that will be sent.
    :param configured: whether the user named the agent, so that it does not come from the header.
    """
    if not agent.tokens:
        source = "ROBOTSTXT_USER_AGENT" if configured else f"the User-Agent header {header!r}"
        return (
            f"No product token can be derived from {source}: only the '*' group of a robots.txt applies. "
            "Set ROBOTSTXT_USER_AGENT to your crawler's name, and USER_AGENT to a string that contains it."
        )
    found = []
    for token in agent.tokens:
        reason = invalid_reason(token)
        if reason is not None:
            found.append(f"{token!r} is no product token: {reason}")
        elif token.lower() not in header.lower():
            found.append(f"{token!r} is not in the User-Agent header {header!r} (RFC 9309, 2.2.1)")
    if not found:
        return None
    return (
        f"{'; '.join(found)}. Site owners cannot tell which rules are meant for this crawler: "
        "set ROBOTSTXT_USER_AGENT to its name, and USER_AGENT to a string that contains that name."
    )
