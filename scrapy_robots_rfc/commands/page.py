"""`scrapy robots page` shows the rules and uses in a page's headers and meta elements."""

from argparse import Namespace
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from scrapy.http import HtmlResponse, Response
from scrapy.settings import Settings as ScrapySettings

from scrapy_robots_rfc.commands import common
from scrapy_robots_rfc.commands.agents import AGENT, agents_of, show_agent
from scrapy_robots_rfc.core.text import printable, shorten
from scrapy_robots_rfc.policy.origins import without_userinfo
from scrapy_robots_rfc.usage.page_rules import MAX_DOCUMENT, all_metas_of, page_of, rules_of
from scrapy_robots_rfc.usage.rules import EVERYONE, PageRules, bounded_texts, read_members
from scrapy_robots_rfc.usage.use import response_preferences

_ONLY_THE_PAGE = (
    "uses in the site's robots.txt or tdmrep.json were not read, and may be refused there, too"
    " (check --page --use LABELS reads them)"
)


def _page(settings: ScrapySettings, console: common.Console, opts: Namespace) -> int:
    """Print a page's rules for each agent, and return the exit code."""
    settings.set("ROBOTS_USE", None, "cmdline")  # also show pages that refuse the declared uses
    our_settings = common.prepared(settings)
    agents = agents_of(opts, our_settings, settings)
    if common.is_url(opts.page, our_settings.schemes):
        common.origin_of(opts.page, our_settings.schemes)
        url = common.as_url(opts.page)
        response = common.crawl(settings, lambda inquirer: inquirer.page(url))
        name, status = without_userinfo(response.url), response.status
    else:
        body = common.read(opts.page, console, 4 * MAX_DOCUMENT, common.IF_URL)
        response = HtmlResponse("file:", body=body)
        name, status = common.source_name(opts.page), None
    for number, agent in enumerate(agents):
        rules = rules_of(response, agent.tokens)
        uses = response_preferences(response, agent.tokens)
        record = {
            "url": name,
            "status": status,
            **agent.record,
            "nofollow": "nofollow" in rules.directives,
            "noindex": "noindex" in rules.directives,
            "directives": dict(rules.directives),
            "conflicts": list(rules.conflicts),
            "use": {label: each.allowed for label, each in uses.items()},
            "use_sources": {label: each.source for label, each in uses.items()},
            "rules": list(_rules(response, agent.tokens)),
        }
        if opts.json:
            console.print_json(record)
        else:
            if number:
                console.print()
            _show(record, rules, console)
    return 0


def _rules(response: Response, tokens: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yield the rules for all crawlers in headers and meta elements as JSON objects."""
    own = {"robots", *(token.lower() for token in tokens)}
    lines = (("", value.decode("latin-1")) for value in response.headers.getlist("X-Robots-Tag"))
    in_head = Counter(page_of(response).metas)
    elsewhere = Counter(all_metas_of(response)) - in_head
    in_body = "ignored because it is not in the head"
    texts = [
        *(("header", name, text, None) for name, text in bounded_texts(lines)[0]),
        *(("meta", name.strip(), text, None) for name, text in in_head.elements()),
        *(("meta", name.strip(), text, in_body) for name, text in elsewhere.elements()),
    ]
    for source, name, text, odd in texts:
        members = list(read_members(text))
        is_own = source == "header" or name.lower() in own
        # A meta element with a different name is for another crawler if we know all its directives.
        if not is_own and any(member.problem == "unknown directive" for member in members):
            continue
        for member in members:
            named = member.bot.lower() in own | EVERYONE
            yield {
                "source": source,
                "bot": ": ".join(filter(None, (name, member.bot))) or "*",
                "name": member.name,
                "value": member.value,
                "applies": is_own and not odd and named,
                "odd": odd or member.problem or None,
            }


def _show(record: dict[str, Any], rules: PageRules, console: common.Console) -> None:
    status = "" if record["status"] is None else f" (status {record['status']})"
    console.print(printable(record["url"]) + status)
    show_agent(record, console)
    if not record["rules"]:
        console.fact("rules", "none")
    for name, value in rules.directives.items():
        but = ", although another rule allows it" if name in rules.conflicts else ""
        places = "; ".join(rules.where(name))
        console.fact("applies", f"{_text(name, value)}{but} ({places})")
    for label, allowed in record["use"].items():
        source = shorten(record["use_sources"][label])
        console.fact("use", f"{label}: {common.USES[allowed]} ({source})")
    if record["status"] is not None:
        console.fact("note", _ONLY_THE_PAGE)
    for rule in record["rules"]:
        mark = console.paint(">", common.STRONG, common.GOOD) if rule["applies"] else " "
        text = f"{rule['source']:<6}  {rule['bot']}: {_text(rule['name'], rule['value'])}"
        odd = console.paint(f" ({rule['odd']})", common.DOUBT) if rule["odd"] else ""
        console.print(f"  {mark} {printable(text)}{odd}")


def _text(name: str, value: str | None) -> str:
    return name if value is None else f"{name}: {value}"


TOPIC = common.Topic(
    "Show a page's X-Robots-Tag and robots meta rules, whom each one addresses, and which uses the"
    " page allows.",
    {
        "page": {"metavar": "URL|FILE|-", "help": "a page, or - for HTML on standard input"},
        **AGENT,
        **common.JSON,
    },
    _page,
)
