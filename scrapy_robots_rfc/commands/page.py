"""`scrapy robots page URL|FILE|-`: the rules of a page, from header and metas.

For whom each is, and what holds.
"""

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
from scrapy_robots_rfc.usage.html import MAX_DOCUMENT, all_metas_of, metas_of, rules_of
from scrapy_robots_rfc.usage.rules import EVERYONE, PageRules, as_far_as_read, read_members

HELP = "Show the rules of a page, X-Robots-Tag lines and robots metas: for whom each is, what holds, what is odd."

_ELSEWHERE = "not in the head, so it does not count"


def add_arguments(topic: argparse.ArgumentParser) -> None:
    """Add what a command line of this topic may have."""
    topic.add_argument(
        "page", metavar="URL|FILE|-", help="a URL; a file, or -, standard input, with a document"
    )
    check.add_agent(topic)
    topic.add_argument(
        "--json", action="store_true", help="an object in one line for each who asks"
    )


def run(settings: ScrapySettings, console: common.Console, opts: argparse.Namespace) -> int:
    """Print the rules of a page for each who asks; return the exit code."""
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
        holds, rules = rules_of(response, tokens), list(_rules(response, tokens))
        if opts.json:
            about = {"url": name, "agent": who, "tokens": list(tokens)}
            known = {
                "nofollow": holds.nofollow,
                "noindex": holds.noindex,
                "directives": dict(holds.directives),
            }
            console.say_json({**about, **known, "conflicts": list(holds.conflicts), "rules": rules})
        else:
            console.say(f"{chr(10) * (number > 0)}{printable(name)}")
            _show(who, holds, rules, console)
    return 0


def _rules(response: Response, tokens: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yield every member of the header lines and of the metas, whoever it is for, as an object of JSON."""
    own = {"robots", *(token.lower() for token in tokens)}
    lines = (value.decode("latin-1") for value in response.headers.getlist("X-Robots-Tag"))
    texts = [("header", "*", text, "") for text in as_far_as_read(lines)[0]]
    metas = Counter(metas_of(response))
    for count, odd in ((metas, ""), (Counter(all_metas_of(response)) - metas, _ELSEWHERE)):
        texts += [("meta", name.strip(), content, odd) for name, content in count.elements()]
    for source, name, text, odd in texts:
        members, mine = (
            list(read_members(text)),
            odd == "" and (source == "header" or name.lower() in own),
        )
        # A meta of another name is for another crawler if all that it says is known.
        if name.lower() in own or all(member.odd != "unknown directive" for member in members):
            for member in members:
                bots = (
                    [name, member.bot] if source == "meta" and member.bot else [member.bot or name]
                )
                yield {
                    "source": source,
                    "bot": ": ".join(bots),
                    "name": member.name,
                    "value": member.value,
                    "applies": mine and (member.bot.lower() in own | EVERYONE or not member.bot),
                    "odd": odd or member.odd or None,
                }


def _show(who: str, holds: PageRules, rules: list[dict[str, Any]], console: common.Console) -> None:
    console.fact("agent", who)
    if not rules:
        console.fact("rules", "none")
    for name, value in holds.directives.items():
        but = ", though it is permitted elsewhere" if name in holds.conflicts else ""
        console.fact("holds", f"{_text(name, value)}{but} ({'; '.join(holds.where(name))})")
    for rule in rules:
        mark = console.paint(">", STRONG, GOOD) if rule["applies"] else " "
        line = printable(
            f"{rule['source']:<6}  {rule['bot']}: {_text(rule['name'], rule['value'])}"
        )
        console.say(
            f"  {mark} {line}" + (console.paint(f" ({rule['odd']})", DOUBT) if rule["odd"] else "")
        )


def _text(name: str, value: str | None) -> str:
    return name if value is None else f"{name}: {value}"
