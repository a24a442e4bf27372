"""Support for "robots.txt for Gemini", which only defines Disallow lines with path prefixes.

Groups work as in RFC 9309. In addition, a crawler may use "virtual user agents" that describe its
purpose. If it uses several, the most restrictive one applies.
"""

import re
from collections.abc import Sequence

from scrapy_robots_rfc.core.decision import Decision
from scrapy_robots_rfc.core.lines import RULE_KEYS, Content
from scrapy_robots_rfc.core.robotstxt import RobotsTxt

#: The virtual user agents that are defined in the specification.
VIRTUAL_AGENTS = frozenset({"archiver", "indexer", "researcher", "webproxy"})

_DISALLOW = "|".join(key for key in RULE_KEYS if key != "allow")
# The start of an Allow line, which is not supported in Gemini: `Allow: /x`.
_ALLOW_LINE = re.compile(rb"^(?=[ \t]*allow[ \t:])", re.IGNORECASE | re.MULTILINE)
# A Disallow line with characters that are only special in RFC 9309: `Disallow: /x$`.
_SPECIAL = re.compile(
    rf"^[ \t]*(?:{_DISALLOW})[ \t:][^#\n]*[*$][^#\n]*".encode(), re.IGNORECASE | re.MULTILINE
)


class GeminiFile(RobotsTxt):
    """A robots.txt file from a Gemini capsule.

    It is converted so that it can be parsed like any other file. Allow lines become comments, and
    ``*`` and ``$`` are percent-encoded. Line numbers do not change.
    """

    def __init__(self, body: bytes = b"", *, max_size: int = RobotsTxt.MAX_SIZE) -> None:
        super().__init__(body, max_size=max_size)  # rules aren't parsed before the first decision
        data = _SPECIAL.sub(
            lambda line: line[0].replace(b"*", b"%2A").replace(b"$", b"%24"),
            _ALLOW_LINE.sub(b"#", self.content.data),
        )
        self.content: Content = self.content._replace(data=data)

    def decide(self, url: str | bytes, tokens: str | Sequence[str]) -> Decision:
        """Return whether a URL may be fetched, and why.

        :param url: see `RobotsTxt.decide`.
        :param tokens: see `RobotsTxt.decide`. If there are several virtual user agents, the first
            one that is disallowed decides.
        """
        return super().decide(url, deciding_tokens(self, url, tokens))


def deciding_tokens(
    file: RobotsTxt, url: str | bytes, tokens: str | Sequence[str]
) -> str | Sequence[str]:
    """Return the tokens that decide about a URL, with no more than one virtual user agent.

    If there are several virtual user agents, the first one that is disallowed decides, or just the
    first one if none is. For files that are not from Gemini, which `explanation.py` also passes,
    all tokens are returned.
    """
    # Only a list may contain several virtual user agents.
    if not isinstance(file, GeminiFile) or isinstance(tokens, str):
        return tokens
    virtual = {name for name in tokens if name.lower() in VIRTUAL_AGENTS}
    # For each virtual user agent, the tokens without any other virtual user agents.
    combinations = [
        tuple(name for name in tokens if name == agent or name not in virtual)
        for agent in tokens
        if agent in virtual
    ]
    # Use the base class's method, because `file.decide` would call this function again.
    disallowed = (each for each in combinations if not RobotsTxt.decide(file, url, each).allowed)
    return next(disallowed, combinations[0] if combinations else tokens)
