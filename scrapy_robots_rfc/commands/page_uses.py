"""Fetch pages for `scrapy robots check --page`, to read which uses they refuse."""

from collections.abc import Mapping
from typing import Any

from scrapy import Request

from scrapy_robots_rfc import signals
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
    dropped = list[Request]()
    inquirer.crawler.signals.connect(
        lambda request: dropped.append(request),  # noqa: PLW0108 - it selects the argument
        signals.request_disallowed,
        weak=False,
    )
    pages = {
        key: await _read(inquirer, *key, dropped) for key, origin in requested.items() if origin
    }
    return {**found}, pages


async def _read(
    inquirer: Inquirer, url: str, agent: NamedAgent, dropped: list[Request]
) -> PageFields:
    """Fetch a page as a crawl does, and return what it changes.

    :param dropped: a list to which dropped requests are added. The last one may be for the target
        of a redirect.
    """
    request = Request(stripped(url), meta={"robotstxt_user_agent": agent.name})
    dropped[:] = [request]
    assert inquirer.crawler.engine is not None
    try:
        response = await inquirer.crawler.engine.download_async(request)
    except RobotsDisallowed as error:
        last, reason = dropped[-1], error.decision.reason
        url = stripped(last.url)
        target = "" if last.url == request.url else f"redirected to {url}; "
        return {
            "verdict": "disallowed",
            "why": f"{target}{error.why}",
            "reason": reason.value,
            **dict.fromkeys(("rule", "line")),
            # Other requests may have a copy of the redirect's uses.
            "use": last.meta.get(PERMITTED_KEY, {}) if reason is Reason.USE else {},
            "page": {"url": url, "status": None},
        }
    except Exception as error:  # noqa: BLE001 - handlers may raise anything
        why = f"the page cannot be read: {cause_of(error, request, inquirer)}"
        return {"verdict": "undecided", "why": why}
    page = {"url": stripped(response.url), "status": response.status}
    return {"page": page, "use": response.meta.get(PERMITTED_KEY, {})}
