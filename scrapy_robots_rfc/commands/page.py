"""`scrapy robots page URL|FILE|-`: the rules of a page, from its header lines and its metas."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from scrapy.http import HtmlResponse, Response
from scrapy.settings import Settings as ScrapySettings

from scrapy_robots_rfc.commands import asking, check, common
from scrapy_robots_rfc.commands.common import DOUBT, GOOD, STRONG, is_url
from scrapy_robots_rfc.core.text import printable
from scrapy_robots_rfc.policy.origins import without_userinfo
from scrapy_robots_rfc.usage.html import MAX_DOCUMENT, all_metas_of, page_of, rules_of
from scrapy_robots_rfc.usage.rules import (
    EVERYONE,
    Member,
    PageRules,
    as_far_as_read,
    read_members,
)

HELP = "Show the rules of a page, X-Robots-Tag and robots metas: for whom each is, what is odd."

ARGUMENTS = (
    common.argument("page", metavar="URL|FILE|-", help="a page; -: a document on standard input"),
    common.AGENT,
    common.JSON,
)


def run(settings: ScrapySettings, console: common.Console, opts: argparse.Namespace) -> int:
    """Print the rules of a page for each agent; return the exit code."""
    agents = check.agents_for(opts.agent, asking.prepared(settings), settings)
    if is_url(opts.page):
        url = common.as_url(opts.page)
        common.origin_of(url)
        response = asking.crawl(settings, lambda inquirer: inquirer.page(url))
        name = without_userinfo(response.url)
    else:
        response = HtmlResponse("file:", body=common.read(opts.page, console, 4 * MAX_DOCUMENT))
        name = common.source_name(opts.page)
    for number, agent in enumerate(agents):
        who, tokens = check.name_of(agent), agent.tokens
        in_force, rules = rules_of(response, tokens), list(_rules(response, tokens))
        if opts.json:
            record = {
                "url": name,
                "agent": who,
                "tokens": list(tokens),
                "nofollow": "nofollow" in in_force.directives,
                "noindex": "noindex" in in_force.directives,
                "directives": dict(in_force.directives),
                "conflicts": list(in_force.conflicts),
                "rules": rules,
            }
            console.print_json(record)
        else:
            if number:
                console.print()
            console.print(printable(name))
            _show(who, in_force, rules, console)
    return 0


def _rules(response: Response, tokens: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yield all rules of the header lines and the metas, for any crawler, as objects of JSON."""
    own = {"robots", *(token.lower() for token in tokens)}
    lines = (value.decode("latin-1") for value in response.headers.getlist("X-Robots-Tag"))
    for text in as_far_as_read(lines)[0]:
        for member in read_members(text):
            applies = not member.bot or member.bot.lower() in own | EVERYONE
            yield _rule("header", member.bot or "*", member, applies, member.odd)
    in_head = Counter(page_of(response).metas)
    elsewhere = Counter(all_metas_of(response)) - in_head
    for metas, odd in ((in_head, ""), (elsewhere, "not in the head, so it does not count")):
        for name, text in metas.elements():
            yield from _meta_rules(name.strip(), text, odd, own)


def _meta_rules(name: str, text: str, odd: str, own: set[str]) -> Iterator[dict[str, Any]]:
    """Yield the rules of a meta; `odd` is what is odd about all of it."""
    members = list(read_members(text))
    is_own = name.lower() in own
    # A meta of another name is for another crawler if all that it says is known.
    if not is_own and any(member.odd == "unknown directive" for member in members):
        return
    for member in members:
        bot = f"{name}: {member.bot}" if member.bot else name
        named = not member.bot or member.bot.lower() in own | EVERYONE
        yield _rule("meta", bot, member, is_own and not odd and named, odd or member.odd)


def _rule(source: str, bot: str, member: Member, applies: bool, odd: str) -> dict[str, Any]:
    return {
        "source": source,
        "bot": bot,
        "name": member.name,
        "value": member.value,
        "applies": applies,
        "odd": odd or None,
    }


def _show(
    who: str, in_force: PageRules, rules: list[dict[str, Any]], console: common.Console
) -> None:
    console.fact("agent", who)
    if not rules:
        console.fact("rules", "none")
    for name, value in in_force.directives.items():
        but = ", though it is permitted elsewhere" if name in in_force.conflicts else ""
        places = "; ".join(in_force.where(name))
        console.fact("applies", f"{_text(name, value)}{but} ({places})")
    for rule in rules:
        mark = console.paint(">", STRONG, GOOD) if rule["applies"] else " "
        text = f"{rule['source']:<6}  {rule['bot']}: {_text(rule['name'], rule['value'])}"
        odd = console.paint(f" ({rule['odd']})", DOUBT) if rule["odd"] else ""
        console.print(f"  {mark} {printable(text)}{odd}")


def _text(name: str, value: str | None) -> str:
    return name if value is None else f"{name}: {value}"
