"""ShardedDict, a mapping for very many keys."""

from collections.abc import Iterator, MutableMapping
from itertools import chain
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")

_SHARDS = 64


class ShardedDict(MutableMapping[K, V]):
    """A mapping that spreads its keys over many dicts, so that adding one never takes long.

    When a single dict grows, all of it is copied, which takes milliseconds with 100,000 keys. Each
    shard has only 1/64 of them, and the shards grow at different times. The keys have no order.
    """

    def __init__(self) -> None:
        #: The dicts. To iterate over many items, use these, because it is faster.
        self.shards: tuple[dict[K, V], ...] = tuple({} for _ in range(_SHARDS))

    def __getitem__(self, key: K) -> V:
        return self.shards[hash(key) % _SHARDS][key]

    def __setitem__(self, key: K, value: V) -> None:
        self.shards[hash(key) % _SHARDS][key] = value

    def __delitem__(self, key: K) -> None:
        del self.shards[hash(key) % _SHARDS][key]

    def __iter__(self) -> Iterator[K]:
        return chain.from_iterable(self.shards)

    def __len__(self) -> int:
        return sum(map(len, self.shards))
