"""A robots.txt with the rules of "robots.txt for Gemini": only Disallow lines, with a path prefix.

Its groups are the same as in RFC 9309. A crawler may have purposes besides its name, the virtual
user agents: the most restrictive of their groups counts.
"""

import re
from collections.abc import Sequence

from scrapy_robots_rfc.core.decision import Decision
from scrapy_robots_rfc.core.lines import RULE_KEYS, Content
from scrapy_robots_rfc.core.robotstxt import RobotsTxt

#: The virtual user agents of the specification, each a possible purpose of a crawler.
VIRTUAL_AGENTS = frozenset({"archiver", "indexer", "researcher", "webproxy"})

_DISALLOW = "|".join(key for key in RULE_KEYS if key != "allow")
# Lines that RFC 9309 reads differently: `Allow: /x`, and Disallow lines with `*` or `$`, such as
# `Disallow: /x$`.
_ALLOW_LINE = re.compile(rb"^(?=[ \t]*allow[ \t:])", re.IGNORECASE | re.MULTILINE)
_SPECIAL = re.compile(
    rf"^[ \t]*(?:{_DISALLOW})[ \t:][^#\n]*[*$][^#\n]*".encode(), re.IGNORECASE | re.MULTILINE
)


class GeminiFile(RobotsTxt):
    """A robots.txt of a Gemini capsule, with the methods of `RobotsTxt`.

    An Allow line becomes a comment, and ``*`` and ``$`` in patterns become escapes. Line numbers
    stay the same.
    """

    def __init__(self, body: bytes = b"", *, max_size: int = RobotsTxt.MAX_SIZE) -> None:
        super().__init__(body, max_size=max_size)
        data = _SPECIAL.sub(_escaped, _ALLOW_LINE.sub(b"#", self.content.data))
        self.content: Content = self.content._replace(data=data)

    def decide(self, url: str | bytes, tokens: str | Sequence[str]) -> Decision:
        """Return whether a URL may be fetched, and why.

        :param url: as for `RobotsTxt`.
        :param tokens: as for `RobotsTxt`. Of several virtual user agents, the first one whose group
            disallows the URL decides.
        """
        return super().decide(url, deciding_tokens(self, url, tokens))

    def prepare(self, tokens: str | Sequence[str]) -> None:
        """Prepare the file as `RobotsTxt.prepare` does, for each virtual user agent."""
        for some in (*_with_one_virtual(tokens), tokens):
            super().prepare(some)


def _escaped(line: re.Match[bytes]) -> bytes:
    return line[0].replace(b"*", b"%2A").replace(b"$", b"%24")


def _with_one_virtual(tokens: str | Sequence[str]) -> list[tuple[str, ...]]:
    """Return, for each virtual user agent, the tokens without the other virtual user agents."""
    if isinstance(tokens, str):
        return []
    virtual = [name for name in tokens if name.lower() in VIRTUAL_AGENTS]
    found: list[tuple[str, ...]] = []
    for agent in virtual:
        others = set(virtual) - {agent}
        found.append(tuple(name for name in tokens if name not in others))
    return found


def deciding_tokens(
    file: RobotsTxt, url: str | bytes, tokens: str | Sequence[str]
) -> str | Sequence[str]:
    """Return the tokens that decide about a URL, with at most one virtual user agent for Gemini."""
    each = _with_one_virtual(tokens) if isinstance(file, GeminiFile) else []
    if len(each) < 2:
        return tokens
    return next((some for some in each if not RobotsTxt.decide(file, url, some).allowed), each[0])
