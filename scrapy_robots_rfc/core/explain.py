"""Why a file decides as it does: which group applies and for whose sake, which of its rules match, where they stand.

In here: values for whoever explains a verdict. The verdict itself is `RobotsTxt.decide`, which says the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from scrapy_robots_rfc.core.agents import ANY, token_of
from scrapy_robots_rfc.core.percent import octets

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scrapy_robots_rfc.core.decision import Rule
    from scrapy_robots_rfc.core.robotstxt import RobotsTxt


@dataclass(frozen=True, slots=True)
class Part:
    """Where a group that applies stands in the file.

    :param first: the number of its first line.
    :param last: the number of its last one.
    """

    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Explanation:
    """What a verdict on a URL rests on.

    :param asked: the product tokens of the crawler, in order of preference.
    :param token: the one whose group applies; ``*``: the group for all; ``None``: no group does.
    :param parts: the groups of that token; they count as one (RFC 9309, 2.2.1).
    :param matches: the rules that match, the most specific first: that one decides, the others have lost (2.2.2).
    """

    asked: tuple[str, ...]
    token: str | None
    parts: tuple[Part, ...]
    matches: tuple[Rule, ...]

    @property
    def choice(self) -> str:
        """Why this group applies, for people."""
        others = f"no group names {' or '.join(self.asked)}" if self.asked else "this crawler has no product token"
        if self.token is None:
            return f"none applies: {others}, and there is no group for *"
        if self.token == ANY and ANY not in self.asked:
            return f"for all crawlers (*): {others}"
        before = self.asked[: self.asked.index(self.token)] if self.token in self.asked else ()
        first = f", and none names {' or '.join(before)}" if before else ""
        return f"for {self.token}: it is named there{first}"


def explain(robots: RobotsTxt, url: str, tokens: Sequence[str]) -> Explanation:
    """Return what the verdict on a URL rests on.

    :param url: as for `RobotsTxt.decide`.
    :param tokens: product tokens in order of preference.
    """
    token = robots.decide("/", tokens).token
    parts = []
    if token is not None:
        name = token_of(octets(token))
        parts = [Part(group.line, group.last) for group in robots.groups if group.names(name)]
    return Explanation(tuple(tokens), token, tuple(parts), robots.matching(url, tokens))
