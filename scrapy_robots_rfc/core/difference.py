"""What changed between two robots.txt files: rules that are gone and rules that are new, group by group.

In here: rules as they are written. Which URLs change their verdict is a question to both files.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from scrapy_robots_rfc.core.agents import token_of
from scrapy_robots_rfc.core.groups import merged
from scrapy_robots_rfc.core.percent import octets

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scrapy_robots_rfc.core.decision import Rule, RuleKind
    from scrapy_robots_rfc.core.groups import Group
    from scrapy_robots_rfc.core.robotstxt import RobotsTxt


@dataclass(frozen=True, slots=True)
class Change:
    """What changed for one product token; `old` and `new` are not both ``None``.

    :param name: the token as a file spells it, or the tokens of the crawler that asks.
    :param old: the token whose group applied in the old file; ``None``: there was none.
    :param new: the same in the new file.
    :param removed: rules of the old file, in its order.
    :param added: rules of the new file, in its order.
    """

    name: str
    old: str | None
    new: str | None
    removed: tuple[Rule, ...]
    added: tuple[Rule, ...]


def differences(old: RobotsTxt, new: RobotsTxt, tokens: Sequence[str] = ()) -> list[Change]:
    """Return what changed, groups of one token as one (RFC 9309, 2.2.1); the order of rules means nothing (2.2.2).

    :param tokens: of a crawler, in order of preference: compared is what applies to it. None: all groups.
    """
    if tokens:
        before, after = old.decide("/", tokens).token, new.decide("/", tokens).token
        found = [_change(", ".join(tokens), (before, old.group(tokens)), (after, new.group(tokens)))]
    else:
        names = {token_of(octets(name)): name for file in (new, old) for group in file.groups for name in group.tokens}
        found = [_change(name, _of_token(old, key, name), _of_token(new, key, name)) for key, name in names.items()]
    return [change for change in found if change.removed or change.added or change.old != change.new]


def _of_token(file: RobotsTxt, key: str, name: str) -> tuple[str | None, Group | None]:
    group = merged(group for group in file.groups if group.names(key))
    return (None if group is None else name), group


def _change(name: str, old: tuple[str | None, Group | None], new: tuple[str | None, Group | None]) -> Change:
    before, after = _rules(old[1]), _rules(new[1])
    removed = tuple(rule for key, rule in before.items() if key not in after)
    added = tuple(rule for key, rule in after.items() if key not in before)
    return Change(name, old[0], new[0], removed, added)


def _rules(group: Group | None) -> dict[tuple[RuleKind, str], Rule]:
    """Return rules by what they say; of those that say the same, the one that stands first."""
    found: dict[tuple[RuleKind, str], Rule] = {}
    for rule in () if group is None else group.rules:
        found.setdefault((rule.kind, rule.pattern), rule)
    return found
