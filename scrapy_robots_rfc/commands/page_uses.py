"""Fetch pages for `scrapy robots check --page`, to read which uses they refuse."""

from collections.abc import Mapping
from typing import Any

from scrapy import Request

from scrapy_robots_rfc.commands.agents import NamedAgent
from scrapy_robots_rfc.commands.common import FoundRobots, Inquirer, Unknown, cause_of, stripped
from scrapy_robots_rfc.core.decision import Reason
from scrapy_robots_rfc.errors import RobotsDisallowed
from scrapy_robots_rfc.policy.origins import Origin
from scrapy_robots_rfc.usage.use import PERMITTED_KEY

#: The fields that a page changes in the JSON object about its URL.
PageFields = dict[str, Any]


async def find_with_pages(
    inquirer: Inquirer, requested: Mapping[tuple[str, NamedAgent], Origin | None]
) -> tuple[Mapping[Origin, FoundRobots | Unknown], dict[tuple[str, NamedAgent], PageFields]]:
    """Fetch each origin's robots.txt, then each page for each agent, if robots.txt allows it.

    :param requested: each URL and agent, with the URL's origin.
    """
    found = await inquirer.find(list(dict.fromkeys(filter(None, requested.values()))))
    pages = {key: await _read(inquirer, *key) for key, origin in requested.items() if origin}
    return {**found}, pages


async def _read(inquirer: Inquirer, url: str, agent: NamedAgent) -> PageFields:
    """Fetch a page as a crawl does, and return what it changes."""
    request = Request(stripped(url), meta={"robotstxt_user_agent": agent.name})
    meta, refusal = request.meta, PageFields()
    assert inquirer.crawler.engine is not None
    try:
        meta = (await inquirer.crawler.engine.download_async(request)).meta
    except RobotsDisallowed as error:
        is_use = error.decision.reason is Reason.USE
        why = error.why if is_use else f"redirected to a disallowed page: {error.why}"
        reason = error.decision.reason.value
        refusal = {"verdict": "disallowed", "why": why, "reason": reason, "rule": None}
    except Exception as error:  # noqa: BLE001 - handlers may raise anything
        why = f"the page cannot be read: {cause_of(error, request, inquirer)}"
        return {"verdict": "undecided", "why": why}
    return {"page_read": True, "use": dict(meta.get(PERMITTED_KEY) or {}), **refusal}
