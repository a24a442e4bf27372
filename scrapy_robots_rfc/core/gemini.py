"""A robots.txt as "robots.txt for Gemini" has it: its only rules are Disallow lines with a prefix.

Groups are those of RFC 9309. A crawler may have purposes beside its name, the virtual user agents:
the most restrictive of their groups counts.
"""

import re
from collections.abc import Sequence

from scrapy_robots_rfc.core.decision import Decision
from scrapy_robots_rfc.core.lines import RULE_KEYS, Content
from scrapy_robots_rfc.core.robotstxt import RobotsTxt

#: The virtual user agents of the specification, each a purpose that a crawler may have.
VIRTUAL_AGENTS = frozenset({"archiver", "indexer", "researcher", "webproxy"})

_DISALLOW = "|".join(key for key in RULE_KEYS if key != "allow")
# What RFC 9309 reads in another way: Allow lines, and Disallow lines with `*` or `$`.
_ALLOW_LINE = re.compile(rb"^(?=[ \t]*allow[ \t:])", re.IGNORECASE | re.MULTILINE)
_SPECIAL = re.compile(
    rf"^[ \t]*(?:{_DISALLOW})[ \t:][^#\n]*[*$][^#\n]*".encode(), re.IGNORECASE | re.MULTILINE
)


class GeminiFile(RobotsTxt):
    """A robots.txt of a Gemini capsule; parameters and answers are those of `RobotsTxt`.

    Its lines have the same numbers. A line with Allow becomes a comment, and ``*`` and ``$`` in
    patterns become escapes.
    """

    def __init__(self, body: bytes = b"", *, max_size: int = RobotsTxt.MAX_SIZE) -> None:
        super().__init__(body, max_size=max_size)
        octets = _SPECIAL.sub(_escaped, _ALLOW_LINE.sub(b"#", self.content.octets))
        self.content: Content = self.content._replace(octets=octets)

    def decide(self, url: str | bytes, tokens: str | Sequence[str]) -> Decision:
        """Return whether a URL may be fetched, and why.

        :param url: as for `RobotsTxt`.
        :param tokens: the same; of several virtual user agents, the first one whose group disallows
            decides.
        """
        return super().decide(url, deciding_tokens(self, url, tokens))

    def prepare(self, tokens: str | Sequence[str]) -> None:
        """Do what `RobotsTxt.prepare` does, for each virtual user agent."""
        for some in (*_with_one_virtual(tokens), tokens):
            super().prepare(some)


def _escaped(line: re.Match[bytes]) -> bytes:
    return line[0].replace(b"*", b"%2A").replace(b"$", b"%24")


def _with_one_virtual(tokens: str | Sequence[str]) -> list[tuple[str, ...]]:
    if isinstance(tokens, str):
        return []
    virtual = [name for name in tokens if name.lower() in VIRTUAL_AGENTS]
    return [tuple(name for name in tokens if name == one or name not in virtual) for one in virtual]


def deciding_tokens(
    file: RobotsTxt, url: str | bytes, tokens: str | Sequence[str]
) -> str | Sequence[str]:
    """Return the tokens that decide about a URL: of Gemini's with one virtual agent at most."""
    each = _with_one_virtual(tokens) if isinstance(file, GeminiFile) else []
    if len(each) < 2:
        return tokens
    return next((some for some in each if not RobotsTxt.decide(file, url, some).allowed), each[0])
