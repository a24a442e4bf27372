"""robots.txt files from a seed, with URLs to ask about.

Their sizes and contents follow the distribution of 4,231 real files: mean 4,065 bytes, median 561;
median 12 rules, 90% have at most 81, 99% at most 477; 14% of the rules contain `*`, 1.8% end in
`$`. Comments, sitemaps, line ends and misspellings are as common as in real files.
"""

from __future__ import annotations

import math
import random
import re
from bisect import bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

#: The crawler that is asked about. Few files name it, so mostly the `*` group applies.
AGENT = "examplebot"
#: URLs per file.
URLS = 20

# Quantile and number of rules.
_QUANTILES = (
    (0.0, 0),
    (0.05, 0),
    (0.1, 1),
    (0.25, 3),
    (0.5, 12),
    (0.75, 39),
    (0.9, 81),
    (0.95, 150),
    (0.99, 477),
    (1.0, 6000),
)
_WORD_LIST = """
about account admin ajax api app archive article assets author basket blog book browse
build cache calendar cart catalog category cgi-bin changelog checkout client comment component
config contact content core css customer data db default demo detail dev docs download edit email
embed en error event export extra feed file filter find font forum gallery group guide help history
home icon image import include index info install js lang layout lib license link list local log
login mail manage map media member menu message misc mobile module name network news node note
offer old order page partner password pay person photo plugin poll popup post preview price print
private product profile public query rating readme register report request result review rss sample
script search secure send service session setting share shop sign site skin sort source staff
static stats store style support system tag temp test theme thread tmp token tool topic track tree
trackback update upload user vendor version video view vote web widget wiki word work xml xmlrpc
year zip"""
_WORDS = _WORD_LIST.split()
_BOT_LIST = """
Googlebot bingbot Mediapartners-Google Slurp Twitterbot Baiduspider ia_archiver Yandex
MJ12bot AhrefsBot msnbot dotbot AdsBot-Google Googlebot-Image SemrushBot Wget WebCopier Teleport
CCBot GPTBot PetalBot facebookexternalhit 360Spider"""
_BOTS = _BOT_LIST.split()
_COMMENTS = (
    "# robots.txt",
    "# This file keeps crawlers out of what they need not see",
    "# Directories",
    "# Paths (clean URLs)",
    "#Disallow: /old/",
    "# ---- do not remove ----",
)
_EXTENSIONS = ("html", "php", "pdf", "aspx", "xml", "jpg")
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
_RULE = re.compile(rb"(?:\A|[\r\n])[ \t]*(?:dis)?allow[ \t]*:[ \t]*([/*][^\r\n#]*)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class File:
    """A robots.txt file of a host, and URLs to ask about."""

    host: str
    body: bytes
    urls: tuple[str, ...]


def generated(count: int, seed: int = 9309, urls: int = URLS) -> list[File]:
    """Return generated files, always the same ones for a seed."""
    rng = random.Random(seed)
    sizes = [_rules_at((n + 0.5) / count) for n in range(count)]
    rng.shuffle(sizes)
    return [_file(f"site{n}.example", _body(size, rng), rng, urls) for n, size in enumerate(sizes)]


def in_folder(folder: Path, urls: int = URLS) -> list[File]:
    """Return the `.txt` files of a folder; each name is a host."""
    rng = random.Random(9309)
    return [_file(path.stem, path.read_bytes(), rng, urls) for path in sorted(folder.glob("*.txt"))]


def _file(host: str, body: bytes, rng: random.Random, urls: int) -> File:
    return File(host, body, _urls(host, body, rng, urls))


# URLs.


def urls_of(host: str, body: bytes, count: int) -> tuple[str, ...]:
    """Return URLs to ask about, always the same ones for a file."""
    return _urls(host, body, random.Random(len(body)), count)


def _urls(host: str, body: bytes, rng: random.Random, count: int) -> tuple[str, ...]:
    patterns = [rule.decode("utf-8", "replace").strip() for rule in _RULE.findall(body)[:5000]]
    return tuple(f"https://{host}{_target(patterns, rng)}" for _ in range(count))


def _target(patterns: list[str], rng: random.Random) -> str:
    """Return a path; seven in ten are made from a rule, some with escapes or a query."""
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
    """Return a path that a pattern matches, or just misses."""
    fillings = ("", "x", "item-7", "a/b")
    target = re.sub(r"\*+", lambda _: rng.choice(fillings), pattern.removesuffix("$"))
    target = "/" + re.sub(r"[\s#]", "", target).removeprefix("/")
    chance = rng.random()
    if chance < 0.4:
        return target + rng.choice(("", "/", "index.html", "page/3", "-more", ".html", "/x/y.php"))
    if chance < 0.6:
        return target[: rng.randint(1, len(target))]
    return target


# Files.


def _rules_at(quantile: float) -> int:
    place = min(bisect_right(_QUANTILES, (quantile, 0)), len(_QUANTILES) - 1)
    (below, low), (above, high) = _QUANTILES[place - 1], _QUANTILES[place]
    share = (quantile - below) / (above - below)
    return round(math.exp(math.log(low + 1) * (1 - share) + math.log(high + 1) * share)) - 1


def _body(rules: int, rng: random.Random) -> bytes:
    """Return a file with about this number of rules."""
    if not rules and rng.random() < 0.5:
        return _no_robots_txt(rng)
    lines = _groups(rules, rng)
    if rng.random() < 0.4:
        lines += [f"Sitemap: https://www.example.org/sitemap-{rng.choice(_WORDS)}.xml"]
    end = rng.choices(("\n", "\r\n", "\r"), (66, 33, 1))[0]
    text = end.join(lines) + (end if rng.random() < 0.8 else "")
    return (b"\xef\xbb\xbf" if rng.random() < 0.02 else b"") + text.encode()


def _no_robots_txt(rng: random.Random) -> bytes:
    """Return an empty file, or a web page in its place."""
    if rng.random() < 0.5:
        return b""
    links = "\n".join(
        f'<a href="/{rng.choice(_WORDS)}/">{rng.choice(_WORDS)}</a>'
        for _ in range(rng.choice((40, 150, 700, 2500)))
    )
    return f"<!DOCTYPE html>\n<html><body>\n{links}\n</body></html>\n".encode()


def _groups(rules: int, rng: random.Random) -> list[str]:
    """Return groups with this number of rules together; nearly always one is for all crawlers."""
    named = rng.choices((0, 1, 2, 4, 12), (74, 10, 7, 6, 3))[0] if rules > 1 else 0
    agents = [
        [AGENT] if rng.random() < 0.03 else rng.sample(_BOTS, rng.choice((1, 1, 1, 1, 2, 3)))
        for _ in range(named)
    ]
    place = rng.randint(0, named)
    agents.insert(place, ["*"])
    # A group for one bot mostly disallows everything; the other rules are for all crawlers.
    sizes = [min(rng.choice((1, 1, 1, 2, 8)), rules // (named + 1)) for _ in agents]
    sizes[place] += max(rules - sum(sizes), 0)
    lines: list[str] = []
    for names, size in zip(agents, sizes, strict=True):
        if rng.random() < 0.3:
            lines.append(rng.choice(_COMMENTS))
        key = rng.choices(("User-agent", "User-Agent", "user-agent"), (60, 33, 7))[0]
        lines += [f"{key}: {name}" for name in names]
        lines += _rules(size, rng)
        if rng.random() < 0.1:
            lines.append(f"Crawl-delay: {rng.choice(('1', '5', '10', '0.5', '120'))}")
        lines.append("")
    return lines


def _rules(count: int, rng: random.Random) -> list[str]:
    """Return rules, with comments, blank lines and misspellings among them."""
    folder = f"/{rng.choice(_WORDS)}"  # large files list what is in a few folders
    is_odd = rng.random() < 0.15
    lines = []
    for _ in range(count):
        if rng.random() < 0.035:
            lines.append(rng.choice(("", rng.choice(_COMMENTS))))
        key = "Allow" if rng.random() < 0.055 else "Disallow"
        line = f"{key}: {_pattern(folder, count, rng)}"
        if is_odd and rng.random() < 0.2:
            spellings = (line.lower(), line.replace(": ", ":"), line + "  # as agreed")
            line = rng.choice((*spellings, line.replace("Disallow", "Dissallow"), line + " \t"))
        lines.append(line)
    return lines


def _pattern(folder: str, count: int, rng: random.Random) -> str:
    chance = rng.random()
    if chance > 0.16 and (count > 500 or rng.random() < 0.18):
        return f"{folder}/{rng.choice(_WORDS)}{rng.randrange(100_000)}"
    if chance < 0.14:
        return wildcard(rng)
    if chance < 0.15:
        return f"{_path(rng)}$"
    if chance < 0.16:
        word = rng.choice(_WORDS)
        return rng.choice(("", "/", "*", "/*", f"/{word}%20{word}", f"/{word}/ä", f"/%7E{word}/"))
    return _path(rng)


def _path(rng: random.Random) -> str:
    depth = rng.choices((1, 2, 3, 4), (35, 35, 20, 10))[0]
    path = "".join(f"/{rng.choice(_WORDS)}" for _ in range(depth))
    endings = ("", "/", f".{rng.choice(_EXTENSIONS)}", f"?{rng.choice(_WORDS)}=")
    return path + rng.choices(endings, (40, 42, 14, 4))[0]


def wildcard(rng: random.Random) -> str:
    """Return a pattern that contains `*`; some also end in `$`."""
    one, two, three = (rng.choice(_WORDS) for _ in range(3))
    patterns = (
        f"/*?{one}=",
        f"/*?*{one}={two}",
        f"/*/{one}/{two}/",
        f"/{one}/*/{two}",
        f"*/{one}-{two}/",
        f"/{one}*{two}*{three}",
        f"/{one}/*.{rng.choice(_EXTENSIONS)}$",
    )
    return rng.choices(patterns, (22, 16, 16, 14, 12, 12, 8))[0]
