"""Which rules changed between two files, for everybody and for one crawler."""

from __future__ import annotations

import pytest

from scrapy_robots_rfc.core.difference import differences
from scrapy_robots_rfc.core.robotstxt import RobotsTxt

OLD = RobotsTxt.parse(
    b"User-agent: *\nDisallow: /\n\nUser-agent: foobot\nUser-agent: gone\nDisallow: /a\nDisallow: /b\nDisallow: /b\n"
)
NEW = RobotsTxt.parse(
    b"User-agent: FooBot\nAllow: /b/c\nDisallow: /b\n\nUser-agent: come\nAllow: /\nUser-agent: *\nDisallow: /\n"
)


def changes(tokens: list[str] | None = None) -> list[tuple[str, str | None, str | None, list[int], list[int]]]:
    """What changed, rules by their line numbers."""
    return [
        (
            change.name,
            change.old,
            change.new,
            [rule.line for rule in change.removed],
            [rule.line for rule in change.added],
        )
        for change in differences(OLD, NEW, tokens)
    ]


def test_all_groups() -> None:
    """Groups that changed, came or went; spelling of tokens, order and repetition of rules are no change."""
    assert changes() == [
        ("foobot", "foobot", "foobot", [6], [2]),
        ("come", None, "come", [], [6]),
        ("gone", "gone", None, [6, 7], []),
    ]


@pytest.mark.parametrize(
    ("tokens", "found"),
    [
        (["foobot"], [("foobot", "foobot", "foobot", [6], [2])]),
        (["gone"], [("gone", "gone", "*", [6, 7], [8])]),
        (["zoo", "come"], [("zoo,come", "*", "come", [2], [6])]),
        (["zoo"], []),
        ([], []),
    ],
)
def test_one_crawler(tokens: list[str], found: list[object]) -> None:
    """What applies to a crawler is compared, whichever groups that are."""
    assert changes(tokens) == found


def test_nothing_changed() -> None:
    """A file and itself."""
    assert differences(OLD, OLD) == []


def compared(old: str, new: str) -> list[tuple[list[str], list[str], list[tuple[int, int]]]]:
    """What changed in the one group of two files: rules that went and came, and lines that say the same."""
    first, second = (RobotsTxt.parse(f"User-agent: *\n{text}".encode("latin-1")) for text in (old, new))
    return [
        (
            list(map(str, change.removed)),
            list(map(str, change.added)),
            [(before.line, after.line) for before, after in change.rewritten],
        )
        for change in differences(first, second)
    ]


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        # Another spelling of an escape, of what matches, of a key: the same rule.
        ("Disallow: /%7Ejoe", "Disallow: /~joe", [([], [], [(2, 2)])]),
        ("Disallow: /a%2fb", "Disallow: /a%2Fb", [([], [], [(2, 2)])]),
        ("Disallow: /a*", "Disallow: /a", [([], [], [(2, 2)])]),
        ("Disallow: /a", "disalow /a", []),
        # In other groups, in another order, more than once: not worth a word.
        ("Disallow: /a\nAllow: /b", "Allow: /b\nUser-agent: *\nDisallow: /a\nDisallow: /a", []),
        # Shorter than a rival now, which wins in its place: that is a change.
        (
            "Disallow: /%7Ejoe\nAllow: /*joe",
            "Disallow: /~joe\nAllow: /*joe",
            [(["Disallow: /%7Ejoe"], ["Disallow: /~joe"], [])],
        ),
        # No URL matches both, so that nobody wins.
        ("Disallow: /%7Ejoe\nAllow: /anna", "Disallow: /~joe\nAllow: /anna", [([], [], [(2, 2)])]),
        # One of two spellings went, with the weight that it had.
        ("Disallow: /%7Ea\nDisallow: /~a\nAllow: /*aa", "Disallow: /~a\nAllow: /*aa", [(["Disallow: /%7Ea"], [], [])]),
        ("Disallow: /%7Ea\nDisallow: /~a", "Disallow: /~a", []),
        # Rules that match nothing are none.
        ("Disallow: x%7E", "Disallow: x~", []),
        ("Disallow:", "Allow:", []),
        ("Disallow:\nDisallow: /a", "Disallow: /a\nAllow: x", []),
        ("Disallow: a", "Disallow: /a", [([], ["Disallow: /a"], [])]),
        # What is no UTF-8 is shown as an escape, and is no such text.
        ("Disallow: /\xff", "Disallow: /\\xff", [(["Disallow: /\\xff"], ["Disallow: /\\xff"], [])]),
    ],
)
def test_spellings(old: str, new: str, found: list[object]) -> None:
    """A rule that is only written differently is no change, unless it weighs more or less against another."""
    assert compared(old, new) == found


@pytest.mark.parametrize(
    ("old", "new", "tokens", "found"),
    [
        # The same applies to the crawler: in another group, in one with a rule that matches nothing besides, in none.
        ("*: Disallow: /", "foo: Disallow: /; *: Disallow: /", ["foo"], []),
        ("*: Disallow: /; foo: Allow: /a", "foo: Allow: /a; *: Disallow: /b", ["bar", "foo"], []),
        ("*: Disallow: /", "foo: Disallow: /; foo: Disallow:", ["foo"], []),
        ("*: Disallow:", "zoo: Disallow: /", ["foo"], []),
        ("*: Disallow: /", "foo: Disallow:; *: Disallow: /", ["foo"], [("foo", False)]),
        # Group by group, one that came without a rule lets its crawler in, where there were rules for it before.
        ("*: Disallow: /", "foo: Disallow:; *: Disallow: /", None, [("foo", True)]),
        ("foo: Allow:; *: Disallow: /", "*: Disallow: /", None, [("foo", True)]),
        ("*: Disallow:", "foo: Disallow:; *: Disallow:", None, []),
        ("foo: Disallow:", "*: Disallow:", None, []),
    ],
)
def test_groups_that_moved(old: str, new: str, tokens: list[str] | None, found: list[tuple[str, bool]]) -> None:
    """Where the rules that apply are the same, nothing changed, whichever groups they stand in."""
    changes = differences(of_groups(old), of_groups(new), tokens)
    assert [(change.name, change.empty_group) for change in changes] == found
    assert all(change.significant for change in changes)


def of_groups(text: str) -> RobotsTxt:
    """A file of groups with one rule each, ``token: rule; token: rule``."""
    groups = (group.partition(": ") for group in text.split("; "))
    return RobotsTxt.parse("".join(f"User-agent: {token}\n{rule}\n" for token, _, rule in groups).encode())


def test_many_rules_in_another_spelling() -> None:
    """So many that comparing each with each would take too long are told as changed."""
    old, new = (
        "".join(f"Disallow: /{letter}{number}\nAllow: /{number}\n" for number in range(1100)) for letter in ("~", "%7E")
    )
    [(removed, added, rewritten)] = compared(old, new)
    assert (len(removed), len(added), rewritten) == (1100, 1100, [])


def test_hostile_files() -> None:
    """Many tokens for many rules are compared once, not once a token."""
    agents = "".join(
        f"User-agent: {first}{second}{third}\n" for first in _LETTERS for second in _LETTERS for third in _LETTERS
    )
    rules = "".join(f"Disallow: /{number}\n" for number in range(15_000))
    found = compared(f"Allow: /\n{agents}{rules}", f"Allow: /\n{agents}{rules}Disallow: /x\n")
    assert found == [([], ["Disallow: /x"], [])] * len(_LETTERS) ** 3


_LETTERS = "abcdefghijklmnopqrst"
