"""Rules made to hang a parser, `/*a*a*a...b` against `/aaaa...`.

Each parser in a process of its own, with a limit.
"""

from __future__ import annotations

import multiprocessing
from dataclasses import dataclass
from time import perf_counter_ns
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    from bench.peers import Peer

#: Octets of the rule and of the URL; between neighbours one of the two doubles.
SIZES = ((500, 1000), (1000, 1000), (1000, 2000), (2000, 2000), (2000, 4000))

_REPEAT = 7
# A fork has everything imported, so that the limit is the verdict's alone; peers are not to be
# pickled anyway.
_CONTEXT = multiprocessing.get_context("fork")


@dataclass(frozen=True, slots=True)
class Outcome:
    """How long one verdict takes.

    :param micros: microseconds; where there is no answer within the limit, the limit.
    :param answered: whether there is one.
    """

    micros: float
    answered: bool


def case(rule_size: int, url_size: int) -> tuple[bytes, str]:
    """A file with one hostile rule, and a URL that just misses it."""
    pattern = b"/" + b"*a" * ((rule_size - 2) // 2) + b"b"
    return b"User-agent: *\nDisallow: " + pattern + b"\n", "https://site.example/" + "a" * (
        url_size - 1
    )


def verdict_time(peer: Peer, rule_size: int, url_size: int, repeat: int = _REPEAT) -> float:
    """Microseconds of a verdict, the file read before; the best of several."""
    body, url = case(rule_size, url_size)
    ask = peer.load(body, "site.example")
    ask("https://site.example/", peer.agent)
    best = 1 << 62
    for _ in range(repeat):
        start = perf_counter_ns()
        ask(url, peer.agent)
        best = min(best, perf_counter_ns() - start)
    return best / 1000


def guarded(peer: Peer, rule_size: int, url_size: int, limit: float) -> Outcome:
    """The same in a process that is killed after so many seconds."""
    receiver, sender = multiprocessing.Pipe(duplex=False)
    process = _CONTEXT.Process(target=_send, args=(sender, peer, rule_size, url_size), daemon=True)
    process.start()
    sender.close()  # the process has the other one; when it dies, the pipe ends
    try:
        if not receiver.poll(limit):
            return Outcome(limit * 1e6, answered=False)
        return Outcome(receiver.recv(), answered=True)
    finally:
        process.kill()
        process.join()


def _send(sender: Connection, peer: Peer, rule_size: int, url_size: int) -> None:
    sender.send(verdict_time(peer, rule_size, url_size))
