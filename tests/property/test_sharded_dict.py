"""The mapping that spreads its keys over many dicts."""

from __future__ import annotations

from hypothesis import given, strategies as st

from scrapy_robots_rfc.scheduling.sharded_dict import ShardedDict

KEYS = st.text("abc", max_size=3)


@given(st.lists(st.tuples(st.sampled_from(["set", "pop", "setdefault", "get"]), KEYS)))
def test_same_as_a_dict(steps: list[tuple[str, str]]) -> None:
    """It contains what a dict would contain after the same calls."""
    sharded: ShardedDict[str, int] = ShardedDict()
    plain: dict[str, int] = {}
    for number, (step, key) in enumerate(steps):
        assert (key in sharded) == (key in plain)
        if step == "set":
            sharded[key] = plain[key] = number
        elif step == "pop":
            assert sharded.pop(key, None) == plain.pop(key, None)
        elif step == "setdefault":
            assert sharded.setdefault(key, number) == plain.setdefault(key, number)
        else:
            assert sharded.get(key) == plain.get(key)
    assert dict(sharded) == plain
    assert len(sharded) == len(plain)


def test_no_large_dict() -> None:
    """None of its dicts has more than a twentieth of the keys."""
    sharded: ShardedDict[str, None] = ShardedDict()
    for number in range(10_000):
        sharded[f"http://site{number}.example"] = None
    assert max(map(len, sharded.shards)) < 500
