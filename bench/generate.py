"""robots.txt files with the distribution measured on 4,231 real ones, from a seed: no real file is
needed to measure.

Mean 4,065 B, median 561 B; rules p50 12, p90 81, p99 477, largest 31,843; 14 % of rules with `*`
inside, 1.8 % ending in `$`. Agents, comments, sitemaps, line ends and oddities stand about as often
as there. `tests/bench` checks it.
"""

from __future__ import annotations

import math
import random
from bisect import bisect_right

from bench.samples import AGENT, Sample, sample

#: The largest number of rules in a real file.
LARGEST = 31_843

# Quantile -> rules a file, the measured ones and what lies between them.
_RULES = (
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

_TEXT = (
    "about account admin ajax api app archive article assets author basket blog book browse build"
    " cache calendar cart catalog category cgi-bin changelog checkout client comment component"
    " config contact content core css customer data db default demo detail dev docs download edit"
    " email embed en error event export extra feed file filter find font forum gallery group guide"
    " help history home icon image import include index info install js lang layout lib license"
    " link list local log login mail manage map media member menu message misc mobile module name"
    " network news node note offer old order page partner password pay person photo plugin poll"
    " popup post preview price print private product profile public query rating readme register"
    " report request result review rss sample script search secure send service session setting"
    " share shop sign site skin sort source staff static stats store style support system tag temp"
    " test theme thread tmp token tool topic track tree trackback update upload user vendor version"
    " video view vote web widget wiki word work xml xmlrpc year zip "
)
_WORDS = _TEXT.split()
_NAMES = (
    "Googlebot bingbot Mediapartners-Google Slurp Twitterbot Baiduspider ia_archiver Yandex MJ12bot"
    " AhrefsBot msnbot dotbot AdsBot-Google Googlebot-Image SemrushBot Wget WebCopier Teleport"
    " CCBot GPTBot PetalBot facebookexternalhit 360Spider "
)
_BOTS = _NAMES.split()
_COMMENTS = (
    "# robots.txt",
    "# This file keeps crawlers out of what they need not see",
    "# Directories",
    "# Paths (clean URLs)",
    "#Disallow: /old/",
    "# ---- do not remove ----",
)
_EXTENSIONS = ("html", "php", "pdf", "aspx", "xml", "jpg")


def files(count: int, seed: int = 9309, *, largest: bool = True) -> list[Sample]:
    """So many files, always the same ones for a seed.

    :param largest: whether one of them has as many rules as the largest real file.
    """
    rng = random.Random(seed)
    sizes = [_rules_at((at + 0.5) / count) for at in range(count)]
    if largest and count:
        sizes[-1] = LARGEST
    rng.shuffle(sizes)
    return [sample(f"site{at}.example", body(size, rng), rng) for at, size in enumerate(sizes)]


def of_size(rules: int, seed: int, *, wild: bool = False) -> Sample:
    """One file with a single `*` group of so many rules, as the growth table compares them.

    :param wild: whether 14 % of them have a wildcard; the largest real file has none, so neither
        has its image here.
    """
    rng = random.Random(seed)
    base = f"/{_word(rng)}"
    patterns = [
        _pattern(base, rules, rng) if wild else _plain(base, rules, rng) for _ in range(rules)
    ]
    lines = ["User-agent: *", *(f"Disallow: {pattern}" for pattern in patterns)]
    return sample("growth.example", "\n".join(lines).encode() + b"\n", rng)


def wildcards(rules: int, seed: int) -> Sample:
    """One file whose rules all have a wildcard inside."""
    rng = random.Random(seed)
    distinct: dict[str, None] = {}
    while len(distinct) < rules:
        distinct[_wildcard(rng)] = None
    lines = ["User-agent: *", *(f"Disallow: {pattern}" for pattern in distinct)]
    return sample("wildcards.example", "\n".join(lines).encode() + b"\n", rng)


def _rules_at(quantile: float) -> int:
    at = min(bisect_right(_RULES, (quantile, 0)), len(_RULES) - 1)
    (below, low), (above, high) = _RULES[at - 1], _RULES[at]
    share = (quantile - below) / (above - below)
    return round(math.exp(math.log(low + 1) * (1 - share) + math.log(high + 1) * share)) - 1


def body(rules: int, rng: random.Random) -> bytes:
    """A file with about so many rules."""
    if not rules and rng.random() < 0.5:
        return _no_robots_txt(rng)
    lines = _groups(rules, rng)
    if rng.random() < 0.4:
        sitemaps = [
            f"Sitemap: https://www.example.org/sitemap-{_word(rng)}.xml"
            for _ in range(rng.choice((1, 1, 1, 2, 4)))
        ]
        lines = [*lines, "", *sitemaps] if rng.random() < 0.8 else [*sitemaps, "", *lines]
    end = rng.choices(("\n", "\r\n", "\r"), (66, 33, 1))[0]
    text = end.join(lines) + (end if rng.random() < 0.8 else "")
    return (b"\xef\xbb\xbf" if rng.random() < 0.02 else b"") + text.encode()


def _no_robots_txt(rng: random.Random) -> bytes:
    """An empty file, or a page where robots.txt should be."""
    if rng.random() < 0.5:
        return b""
    rows = "\n".join(
        f'<div class="{_word(rng)}"><a href="/{_word(rng)}/">{_word(rng)}</a></div>'
        for _ in range(rng.choice((40, 150, 700, 2500)))
    )
    return f"<!DOCTYPE html>\n<html><body>\n{rows}\n</body></html>\n".encode()


def _groups(rules: int, rng: random.Random) -> list[str]:
    """Groups whose rules add up to so many; nearly always one of them is for all agents."""
    named = rng.choices((0, 1, 2, 4, 12), (74, 10, 7, 6, 3))[0] if rules > 1 else 0
    agents = [[AGENT] if rng.random() < 0.03 else _some_bots(rng) for _ in range(named)]
    at = rng.randint(0, named)
    agents.insert(at, ["*"])
    # A group for one bot mostly closes the site to it, so it has a rule or two; the rest is for
    # everyone.
    sizes = [min(rng.choice((1, 1, 1, 2, 8)), max(rules // (named + 1), 0)) for _ in agents]
    sizes[at] += max(rules - sum(sizes), 0)
    lines: list[str] = []
    for names, size in zip(agents, sizes, strict=True):
        if rng.random() < 0.3:
            lines.append(rng.choice(_COMMENTS))
        lines += [*_opening(names, rng), *_rules(size, rng)]
        if rng.random() < 0.1:
            lines.append(f"Crawl-delay: {rng.choice(('1', '5', '10', '0.5', '120'))}")
        lines.append("")
    return lines


def _some_bots(rng: random.Random) -> list[str]:
    return rng.sample(_BOTS, rng.choice((1, 1, 1, 1, 2, 3)))


def _opening(names: list[str], rng: random.Random) -> list[str]:
    """The user-agent lines of a group, in the spellings that occur."""
    key = rng.choices(("User-agent", "User-Agent", "user-agent", "Useragent"), (60, 33, 6, 1))[0]
    lines = [f"{key}: {name}" for name in names]
    if (
        rng.random() < 0.04
    ):  # a record between two user-agent lines ends nothing; 3.8 % of the real files have one
        lines[1:1] = ["Crawl-delay: 10", f"User-agent: {rng.choice(_BOTS)}"]
    return lines


def _rules(count: int, rng: random.Random) -> list[str]:
    """Rule lines, with comments, blank lines and misspellings among them."""
    base = f"/{_word(rng)}"  # large files list what lies in a few folders
    odd_file = rng.random() < 0.15
    lines = []
    for _ in range(count):
        if rng.random() < 0.035:
            lines.append(rng.choice(("", rng.choice(_COMMENTS))))
        key = "Allow" if rng.random() < 0.055 else "Disallow"
        line = f"{key}: {_pattern(base, count, rng)}"
        lines.append(_odd(line, rng) if odd_file and rng.random() < 0.2 else line)
    return lines


def _odd(line: str, rng: random.Random) -> str:
    """A rule in a spelling that is read all the same."""
    return rng.choice(
        (
            line.replace("Disallow", "disallow"),
            line.replace(": ", ":"),
            line.replace(": ", " : "),
            line.replace(": ", " "),
            line.replace("Disallow", "Dissallow"),
            line + "  # as agreed",
            line + " \t",
            line.upper().replace("ALLOW:", "allow:").replace("DISALLOW:", "disallow:"),
        )
    )


def _pattern(base: str, count: int, rng: random.Random) -> str:
    if count >= LARGEST:
        return _plain(base, count, rng)
    chance = rng.random()
    if chance < 0.14:
        return _wildcard(rng)
    if chance < 0.15:
        return f"{_path(rng)}$"
    if chance < 0.16:
        return rng.choice(
            (
                "",
                "/",
                "*",
                "/*",
                f"{_path(rng)}%20{_word(rng)}",
                f"/{_word(rng)}/ä",
                f"/%7E{_word(rng)}/",
            )
        )
    return _plain(base, count, rng)


def _plain(base: str, count: int, rng: random.Random) -> str:
    """A pattern without a wildcard: in a long list it is one of many in a folder."""
    if count > 500 or rng.random() < 0.18:
        return f"{base}/{_word(rng)}{rng.randrange(100_000)}"
    return _path(rng)


def _path(rng: random.Random) -> str:
    path = "".join(f"/{_word(rng)}" for _ in range(rng.choices((1, 2, 3, 4), (35, 35, 20, 10))[0]))
    return (
        path
        + rng.choices(("", "/", f".{rng.choice(_EXTENSIONS)}", f"?{_word(rng)}="), (40, 42, 14, 4))[
            0
        ]
    )


def _wildcard(rng: random.Random) -> str:
    """A pattern with `*` inside; one in eighteen also ends in `$`."""
    shape = rng.choices(range(7), (22, 16, 16, 14, 12, 12, 8))[0]
    one, two = _word(rng), _word(rng)
    return (
        f"/*?{one}=",
        f"/*?*{one}={two}",
        f"/*/{one}/{two}/",
        f"/{one}/*/{two}",
        f"*/{one}-{two}/",
        f"/{one}*{two}*{_word(rng)}",
        f"/{one}/*.{rng.choice(_EXTENSIONS)}$",
    )[shape]


def _word(rng: random.Random) -> str:
    return rng.choice(_WORDS)
