"""Generate robots.txt files from a seed, with URLs to decide about.

Their sizes follow the distribution of 4,231 real files. The mean is about 4,000 bytes, the median
500 bytes and 12 rules. 90% have at most 81 rules, 99% at most 477. 14% of the rules contain `*`.
"""

import math
import random
import re
from bisect import bisect_right
from dataclasses import dataclass
from itertools import product
from pathlib import Path

#: The crawler. Few files name it, so the `*` group usually applies.
AGENT = "examplebot"
#: URLs per file.
URLS = 20

# The number of rules at each quantile.
_QUANTILES = (0.0, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 1.0)
_RULES = (0, 0, 1, 3, 12, 39, 81, 150, 477, 6000)
_STARTS = ("ad", "ba", "car", "di", "ex", "fo", "gal", "ho", "in", "lo", "mem", "no", "or")
_ENDS = ("", "min", "ta", "gory", "s", "le", "nt", "x", "re", "pro", "web", "up")
_WORDS = tuple(map("".join, product(_STARTS, _ENDS)))
_UNRELATED_LIST = """
/ /about /index.html /blog/2024/05/17/a-day-at-the-lake /products/4711?ref=home&page=2
/assets/app.3f2a1c.js /en/contact-us/ /search?q=robots /wiki/K%C3%B6ln
/a/very/long/path/that/no/rule/knows/of/and/that/goes/on.html"""
_UNRELATED = tuple(_UNRELATED_LIST.split())
_RULE = re.compile(rb"(?:\A|[\r\n])[ \t]*(?:dis)?allow[ \t]*:[ \t]*([/*][^\r\n#]*)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class File:
    """The robots.txt file of a host, and URLs to decide about."""

    host: str
    body: bytes
    urls: tuple[str, ...]


def generated(count: int, seed: int = 9309, urls: int = URLS) -> list[File]:
    """Return generated files, which are always the same for a seed."""
    rng = random.Random(seed)
    sizes = [_rules_at((n + 0.5) / count) for n in range(count)]
    rng.shuffle(sizes)
    return [_file(f"site{n}.example", _body(size, rng), rng, urls) for n, size in enumerate(sizes)]


def in_folder(folder: Path, urls: int = URLS) -> list[File]:
    """Return the `.txt` files of a folder. The name of a file is its host."""
    rng = random.Random(9309)
    return [_file(path.stem, path.read_bytes(), rng, urls) for path in sorted(folder.glob("*.txt"))]


def urls_of(host: str, body: bytes, count: int) -> tuple[str, ...]:
    """Return URLs to decide about, which are always the same for a file."""
    return _file(host, body, random.Random(len(body)), count).urls


def _file(host: str, body: bytes, rng: random.Random, count: int) -> File:
    patterns = [rule.decode("utf-8", "replace").strip() for rule in _RULE.findall(body)[:5000]]
    urls = tuple(f"https://{host}{_target(patterns, rng)}" for _ in range(count))
    return File(host, body, urls)


def _target(patterns: list[str], rng: random.Random) -> str:
    """Return a path. Seven in ten are made from a rule, some with escapes or a query."""
    is_unrelated = not patterns or rng.random() < 0.3
    target = rng.choice(_UNRELATED) if is_unrelated else _near(rng.choice(patterns), rng)
    chance = rng.random()
    if chance < 0.05:
        place = rng.randrange(1, len(target) + 1)
        escapes = "".join(f"%{byte:02X}" for byte in target[place : place + 1].encode())
        return target[:place] + escapes + target[place + 1 :]
    if chance < 0.08:
        return target + "/größe"
    if chance < 0.18:
        return target + ("&" if "?" in target else "?") + f"id={rng.randrange(10_000)}"
    return target


def _near(pattern: str, rng: random.Random) -> str:
    """Return a path that matches a pattern, or almost does."""
    fillings = ("", "x", "item-7", "a/b")
    target = re.sub(r"\*+", lambda _: rng.choice(fillings), pattern.removesuffix("$"))
    target = "/" + re.sub(r"[\s#]", "", target).removeprefix("/")
    chance = rng.random()
    if chance < 0.4:
        return target + rng.choice(("", "/", "index.html", "page/3", "-more", ".html", "/x/y.php"))
    if chance < 0.6:
        return target[: rng.randint(1, len(target))]
    return target


def _rules_at(quantile: float) -> int:
    place = min(bisect_right(_QUANTILES, quantile), len(_QUANTILES) - 1)
    (below, above), (low, high) = _QUANTILES[place - 1 : place + 1], _RULES[place - 1 : place + 1]
    share = (quantile - below) / (above - below)
    return round(math.exp(math.log(low + 1) * (1 - share) + math.log(high + 1) * share)) - 1


def _body(rules: int, rng: random.Random) -> bytes:
    """Return a file with this number of rules, nearly all of them in the `*` group."""
    lines: list[str] = []
    if rng.random() < 0.25:
        lines += ["# Our terms of use, as far as crawlers are concerned"] * rng.choice((5, 15, 600))
    for name in rng.sample(_WORDS, rng.choices((0, 1, 4), (74, 17, 9))[0]):
        lines += [f"User-agent: {name}bot", "Disallow: /", ""]
    folder = f"/{rng.choice(_WORDS)}"  # large files list the contents of one folder
    lines.append(rng.choice(("User-agent: *", "User-Agent: *")))
    for _ in range(rules):
        if rng.random() < 0.035:
            lines.append(rng.choice(("", "# Directories", "#Disallow: /old/")))
        key = "Allow" if rng.random() < 0.055 else "Disallow"
        lines.append(f"{key}: {_pattern(folder, rules, rng)}")
    if rng.random() < 0.1:
        lines.append(f"Crawl-delay: {rng.choice(('1', '5', '10', '0.5', '120'))}")
    if rng.random() < 0.4:
        lines += ["", f"Sitemap: https://www.example.org/sitemap-{rng.choice(_WORDS)}.xml"]
    return (rng.choices(("\n", "\r\n"), (66, 34))[0].join(lines)).encode()


def _pattern(folder: str, count: int, rng: random.Random) -> str:
    one, two = rng.choice(_WORDS), rng.choice(_WORDS)
    chance = rng.random()
    if chance < 0.14:
        patterns = (f"/*?{one}=", f"/*/{one}/{two}/", f"/{one}/*/{two}", f"/{one}*{two}*.pdf$")
        return rng.choice(patterns)
    if chance < 0.16:
        return rng.choice(("/", "*", f"/{one}%20{two}", f"/{one}/ä", f"/{one}$"))
    if count > 500 or chance < 0.3:
        return f"{folder}/{one}{rng.randrange(100_000)}"
    depth = rng.choices((1, 2, 3, 4), (35, 35, 20, 10))[0]
    path = "".join(f"/{rng.choice(_WORDS)}" for _ in range(depth))
    return path + rng.choices(("", "/", ".html", f"?{one}="), (40, 42, 14, 4))[0]
