"""`scrapy robots page URL|FILE|-`: the rules of a page, from header and metas: for whom each is, and what holds."""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING, Any

from scrapy.http import HtmlResponse, Response

from scrapy_robots_rfc.commands import asking, check
from scrapy_robots_rfc.commands.common import (
    Colour,
    Failed,
    Style,
    as_url,
    is_url,
    origin_of,
    read,
    safe_url,
    source_name,
)
from scrapy_robots_rfc.core.page_rules import EVERYONE, combine, header_texts, parse_headers, parse_metas, read_members
from scrapy_robots_rfc.core.text import printable
from scrapy_robots_rfc.middleware.page_rules import MAX_DOCUMENT, metas_of
from scrapy_robots_rfc.policy.origins import without_userinfo

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Sequence

    from scrapy.settings import Settings as ScrapySettings

    from scrapy_robots_rfc.commands.common import Console
    from scrapy_robots_rfc.core.page_rules import PageRules

HELP = "Show the rules of a page, X-Robots-Tag lines and robots metas: for whom each is, what holds, what is odd."

_ELSEWHERE = "not in the head, so it does not count"


def add_arguments(topic: argparse.ArgumentParser) -> None:
    """Add what a command line of this topic may have."""
    topic.add_argument("page", metavar="URL|FILE|-", help="a URL; a file, or -, standard input, with a document")
    check.add_agent(topic)
    topic.add_argument("--json", action="store_true", help="an object in one line for each who asks")


def run(settings: ScrapySettings, console: Console, opts: argparse.Namespace) -> int:
    """Print the rules of a page for each who asks; return the exit code."""
    askers = check.askers_for(opts.agent, asking.prepared(settings, opts), settings)
    response = _response(settings, opts.page, console)
    name = without_userinfo(response.url) if is_url(opts.page) else source_name(opts.page)
    lines, metas, now = response.headers.getlist("X-Robots-Tag"), metas_of(response), time.time()
    for number, asker in enumerate(askers):
        tokens = asker.agent.tokens
        holds = combine(parse_headers(lines, tokens, now=now), parse_metas(metas, tokens, now=now))
        rules = list(_rules(response, lines, metas, tokens))
        if opts.json:
            about = {"url": name, "agent": asker.name, "tokens": list(tokens)}
            known = {"nofollow": holds.nofollow, "noindex": holds.noindex, "directives": dict(holds.directives)}
            console.say_json({**about, **known, "conflicts": list(holds.conflicts), "rules": rules})
        else:
            console.say_all(["", printable(name)][not number :])
            console.say_all(_lines(asker.name, holds, rules, Style.of(console.stdout)))
    return 0


def _response(settings: ScrapySettings, source: str, console: Console) -> Response:
    """Return the document of a file, or the answer for a URL.

    :raises Failed: there is none.
    """
    if not is_url(source):
        return HtmlResponse("file:", body=read(source, console, 4 * MAX_DOCUMENT))
    url, found = as_url(source), list[Response]()
    origin_of(url)

    async def fetch(inquirer: asking.Inquirer) -> None:
        found.append(await inquirer.page(url))

    asking.crawl(settings, fetch)
    if not found:
        raise Failed(f"stopped before {safe_url(url)} was there")
    return found[0]


def _rules(
    response: Response, lines: list[bytes], metas: list[tuple[str, str]], tokens: Sequence[str]
) -> Iterator[dict[str, Any]]:
    """Yield every member of the header lines and of the metas, whoever it is for, as an object of JSON.

    :param metas: those in the head.
    """
    own = {"robots", *(token.lower() for token in tokens)}
    texts = [("header", "*", text, "") for text in header_texts(lines)]
    elsewhere = Counter(metas_of(response, head=False)) - Counter(metas)
    for count, odd in ((Counter(metas), ""), (elsewhere, _ELSEWHERE)):
        texts += [("meta", name.strip(), content, odd) for name, content in count.elements()]
    for source, name, text, odd in texts:
        members, mine = list(read_members(text)), odd == "" and (source == "header" or name.lower() in own)
        # A meta of another name is for another crawler if all that it says is known.
        if name.lower() in own or all(member.odd != "unknown directive" for member in members):
            for member in members:
                bots = [name, member.bot] if source == "meta" and member.bot else [member.bot or name]
                yield {
                    "source": source,
                    "bot": ": ".join(bots),
                    "name": member.name,
                    "value": member.value,
                    "applies": mine and (member.bot.lower() in own | EVERYONE or not member.bot),
                    "odd": odd or member.odd or None,
                }


def _lines(asker: str, holds: PageRules, rules: list[dict[str, Any]], style: Style) -> Iterator[str]:
    yield from style.fact("agent", asker)
    if not rules:
        yield from style.fact("rules", "none")
    for name, value in holds.directives.items():
        but = ", though it is permitted elsewhere" if name in holds.conflicts else ""
        yield from style.fact("holds", f"{_text(name, value)}{but} ({'; '.join(holds.where(name))})")
    for rule in rules:
        mark = style.paint(">", Colour.STRONG, Colour.GOOD) if rule["applies"] else " "
        line = f"{rule['source']:<6}  {rule['bot']}: {_text(rule['name'], rule['value'])}"
        odd = style.paint(f" ({rule['odd']})", Colour.DOUBT) if rule["odd"] else ""
        yield f"  {mark} {style.cut(printable(line), 50 if odd else 4)}{odd}"


def _text(name: str, value: str | None) -> str:
    return name if value is None else f"{name}: {value}"
