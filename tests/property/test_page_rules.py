"""Rules of a page: nothing raises, order does not matter, restrictions add up, and rules for other
crawlers do not count.
"""

from __future__ import annotations

from hypothesis import given, strategies as st

from scrapy_robots_rfc.usage.rules import PERMITS, RESTRICTS, PageRules, parse_rules

TOKENS = ["FooBot"]
NOW = 1_767_225_600.0

directives = st.sampled_from(
    sorted({*RESTRICTS, *PERMITS, "max-snippet: 5", "max-image-preview: none", "odd"})
)
dates = st.sampled_from(
    ["Wed, 03 Dec 2036 13:09:53 GMT", "Monday, 03-Dec-20 13:09:53 GMT", "2036-12-03", "never"]
)
members = st.one_of(
    directives, dates.map("unavailable_after: {}".format), st.text("nofai:,x ", max_size=8)
)
lists = st.lists(st.one_of(directives, dates.map("unavailable_after: {}".format)), max_size=5)
lines = st.lists(
    st.lists(
        st.one_of(members, st.sampled_from(["foobot: noai", "BadBot: none", "*: noml"])), max_size=5
    ).map(", ".join),
    max_size=4,
)


def of(*texts: str) -> PageRules:
    """Return the rules of header lines."""
    return parse_rules([text.encode("latin-1") for text in texts], [], TOKENS, now=NOW)


def restrictions(rules: PageRules) -> set[str]:
    """Return the restricting directives."""
    return {name for name in rules.directives if name in RESTRICTS}


@given(
    values=st.lists(st.binary(max_size=40)),
    pairs=st.lists(st.tuples(st.text(max_size=8), st.text(max_size=40))),
)
def test_nothing_raises(values: list[bytes], pairs: list[tuple[str, str]]) -> None:
    """Any bytes and any text give rules that can be read."""
    named = [(name, content) for _, content in pairs for name in ("robots", "foobot")]
    rules = parse_rules(values, [*pairs, *named], TOKENS, now=NOW)
    assert set(rules.conflicts) <= rules.directives.keys()
    assert all(rules.where(name) for name in rules.directives)


@given(texts=lines, data=st.data())
def test_order_of_sources_does_not_matter(texts: list[str], data: st.DataObject) -> None:
    """Header lines in another order give the same rules, which are the sum of all lines."""
    shuffled = data.draw(st.permutations(texts))
    rules = of(*texts)
    assert rules == of(*shuffled)
    assert set(rules.members) == {found for text in shuffled for found in of(text).members}


@given(listed=lists, data=st.data(), bot=st.sampled_from(["", "foobot: ", "*: ", "BadBot: "]))
def test_order_of_members_does_not_matter(listed: list[str], data: st.DataObject, bot: str) -> None:
    """Members between two names in another order give the same directives."""
    shuffled = data.draw(st.permutations(listed))
    rules = [of(f"noai, {bot}{', '.join(order)}, BadBot: none") for order in (listed, shuffled)]
    assert rules[0].directives == rules[1].directives


@given(texts=lines, more=lines)
def test_more_restrictions_lift_none(texts: list[str], more: list[str]) -> None:
    """Additional rules never remove a restriction."""
    assert restrictions(of(*texts)) <= restrictions(of(*texts, *more))


@given(texts=lines, others=lists)
def test_members_of_another_crawler_never_count(texts: list[str], others: list[str]) -> None:
    """Members after the name of another crawler change nothing."""
    changed = [f"{text}, OtherBot: {', '.join(others)}" for text in texts]
    assert of(*texts).directives == of(*changed, f"OtherBot: {', '.join(others)}").directives


@given(texts=lines)
def test_header_and_meta_of_one_text_are_the_same(texts: list[str]) -> None:
    """A text means the same in a header line and in a meta."""
    metas = parse_rules([], [("robots", text) for text in texts], TOKENS, now=NOW)
    assert metas.directives == of(*texts).directives
