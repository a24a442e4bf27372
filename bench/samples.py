"""A robots.txt file with the URLs that are asked of it: what every table is measured on.

The files come from a folder, or from `generate.py`; the URLs are drawn from a file's own rules.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import random
    from pathlib import Path

#: The product token that every parser is asked for; few files name it, so mostly the `*` group
#: answers.
AGENT = "examplebot"
#: URLs a file: as many as the measurements in the design were made with.
URLS = 20

_RULE = re.compile(rb"(?:\A|[\r\n])[ \t]*(?:dis)?allow[ \t]*:[ \t]*([/*][^\r\n#]*)", re.IGNORECASE)
# More would change nothing but the time that drawing takes.
_MOST_PATTERNS = 5000

_UNRELATED = (
    "/",
    "/about",
    "/index.html",
    "/blog/2024/05/17/a-day-at-the-lake",
    "/products/4711?ref=home&page=2",
    "/assets/app.3f2a1c.js",
    "/en/contact-us/",
    "/search?q=robots",
    "/wiki/K%C3%B6ln",
    "/a/very/long/path/that/no/rule/knows/of/and/that/goes/on.html",
)


@dataclass(frozen=True, slots=True)
class Sample:
    """A file, and what is asked of it.

    :param name: the host that it stands for.
    :param body: its octets.
    :param urls: absolute URLs, `URLS` of them.
    :param rules: how many allow and disallow lines it has.
    """

    name: str
    body: bytes
    urls: tuple[str, ...]
    rules: int


def sample(name: str, body: bytes, rng: random.Random) -> Sample:
    """A file with URLs drawn from its rules."""
    return Sample(name, body, urls_for(name, body, URLS, rng), len(_RULE.findall(body)))


def urls_for(name: str, body: bytes, count: int, rng: random.Random) -> tuple[str, ...]:
    """So many URLs, most of them drawn from the rules of a file."""
    patterns = [
        match.decode("utf-8", "replace").strip() for match in _RULE.findall(body)[:_MOST_PATTERNS]
    ]
    return tuple(f"https://{name}{_target(patterns, rng)}" for _ in range(count))


def _target(patterns: list[str], rng: random.Random) -> str:
    """A request target: seven in ten are made from a rule, some of them with escapes or a query."""
    unrelated = not patterns or rng.random() < 0.3
    target = rng.choice(_UNRELATED) if unrelated else _near(rng.choice(patterns), rng)
    chance = rng.random()
    if chance < 0.05:
        target = _escaped(target, rng)
    elif chance < 0.08:
        target += "/größe"
    elif chance < 0.18:
        target += ("&" if "?" in target else "?") + f"id={rng.randrange(10_000)}"
    return target


def _near(pattern: str, rng: random.Random) -> str:
    """A target that a pattern matches, or one that it just misses."""
    target = re.sub(
        r"\*+", lambda _: rng.choice(("", "x", "item-7", "a/b")), pattern.removesuffix("$")
    )
    target = re.sub(r"[\s#]", "", target)
    if not target.startswith("/"):
        target = "/" + target
    chance = rng.random()
    if chance < 0.4:
        return target + rng.choice(
            ("", "/", "index.html", "page/3", "-and-more", ".html", "/x/y/z.php")
        )
    if chance < 0.6:
        return target[: rng.randint(1, len(target))]
    return target


def _escaped(target: str, rng: random.Random) -> str:
    """The target with one of its octets written as an escape."""
    at = rng.randrange(len(target))
    octets = target[at].encode() if at else b"/a"
    return (
        target[:at]
        + "".join(f"%{octet:02{rng.choice('xX')}}" for octet in octets)
        + target[at + 1 :]
        if at
        else target
    )


def folder(path: Path, rng: random.Random, limit: int | None = None) -> list[Sample]:
    """The files of a folder, one `.txt` a host, in the order of their names."""
    files = sorted(path.glob("*.txt"))[:limit]
    return [sample(file.stem, file.read_bytes(), rng) for file in files]
