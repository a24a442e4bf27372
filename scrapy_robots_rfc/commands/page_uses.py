"""Fetch pages for `scrapy robots check --page`, to read which uses they refuse."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from scrapy import Request

from scrapy_robots_rfc.commands.agents import NamedAgent
from scrapy_robots_rfc.commands.common import FoundRobots, Inquirer, Unknown, cause_of, stripped
from scrapy_robots_rfc.core.decision import Reason
from scrapy_robots_rfc.errors import RobotsDisallowed
from scrapy_robots_rfc.policy.origins import Origin
from scrapy_robots_rfc.usage.use import PERMITTED_KEY


class PageUses(NamedTuple):
    """The uses that a page allows or refuses, or why it could not be read.

    :param use: for each label, True, False or `None`, from robots.txt and from the page.
    :param refusal: why the page is dropped, or `None`.
    :param reason: the name of that reason, or `None`.
    :param problem: why the page could not be read, or `None`.
    """

    use: Mapping[str, bool | None]
    refusal: str | None = None
    reason: str | None = None
    problem: str | None = None


async def find_with_pages(
    inquirer: Inquirer, requested: Mapping[tuple[str, NamedAgent], Origin | None]
) -> tuple[Mapping[Origin, FoundRobots | Unknown], dict[tuple[str, NamedAgent], PageUses]]:
    """Fetch each origin's robots.txt, then each page for each agent, if robots.txt allows it.

    :param requested: each URL and agent, with the URL's origin.
    """
    found = await inquirer.find(list(dict.fromkeys(filter(None, requested.values()))))
    pages = {key: await _read(inquirer, *key) for key, origin in requested.items() if origin}
    return {**found}, pages


async def _read(inquirer: Inquirer, url: str, agent: NamedAgent) -> PageUses:
    """Fetch a page as a crawl does, and return its uses."""
    request = Request(stripped(url), meta={"robotstxt_user_agent": agent.name})
    assert inquirer.crawler.engine is not None
    try:
        response = await inquirer.crawler.engine.download_async(request)
    except RobotsDisallowed as error:
        is_use = error.decision.reason is Reason.USE
        refusal = error.why if is_use else f"redirected to a disallowed page: {error.why}"
        use = request.meta.get(PERMITTED_KEY) or {}
        return PageUses(use, refusal, error.decision.reason.value)
    except Exception as error:  # noqa: BLE001 - handlers may raise anything
        return PageUses({}, problem=cause_of(error, request, inquirer))
    return PageUses(response.meta.get(PERMITTED_KEY) or {})


def with_page(record: dict[str, Any], page: PageUses | None) -> dict[str, Any]:
    """Return the JSON object about a URL, with what its page says.

    :param page: the page's uses, or `None` if it was not requested.
    """
    if page is None or record["verdict"] != "allowed":
        return record
    if page.problem is not None:
        why = f"the page cannot be read: {page.problem}"
        return {**record, "verdict": "undecided", "why": why}
    read = {**record, "page_read": True, "use": dict(page.use)}
    if page.refusal is None:
        return read
    refused = {"verdict": "disallowed", "why": page.refusal, "reason": page.reason, "rule": None}
    return read | refused
