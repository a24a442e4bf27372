"""Run the scenarios of some modules in this process, in one runtime, and print their results as
JSON.
"""

from __future__ import annotations

import asyncio
import json
import sys
import traceback
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from scrapy.crawler import AsyncCrawlerRunner, Crawler, CrawlerRunner
from scrapy.utils.reactor import install_reactor

from tests.support.crawling import ASYNCIO_REACTOR, SETTINGS, Crawl, Pages
from tests.support.runtimes import scenarios

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

SELECT_REACTOR = "twisted.internet.selectreactor.SelectReactor"

#: The settings that choose a runtime.
RUNTIMES: dict[str, dict[str, Any]] = {
    "asyncio": {"TWISTED_REACTOR": ASYNCIO_REACTOR},
    "select": {"TWISTED_REACTOR": SELECT_REACTOR},
    "none": {"TWISTED_REACTOR_ENABLED": False},
}


@cache
def runner(mode: str) -> CrawlerRunner | AsyncCrawlerRunner:
    """Return the runner of this process."""
    return (CrawlerRunner if mode == "select" else AsyncCrawlerRunner)(RUNTIMES[mode])


async def one_crawl(
    mode: str, spider: type[Pages], settings: dict[str, Any], requests: list[Any]
) -> Crawl:
    """Crawl to the end."""
    crawler = Crawler(spider, {**SETTINGS, **settings, **RUNTIMES[mode]})
    await runner(mode).crawl(crawler, requests)
    return Crawl(crawler, crawler.spider, dict(crawler.stats.get_stats()))


async def run_all(mode: str, *modules: str) -> dict[str, Any]:
    """Run the scenarios of some modules, one after the other, once the reactor is installed."""
    results: dict[str, Any] = {}
    for module in modules:
        for name, scenario in scenarios(module).items():
            try:
                results[name] = await scenario(partial(one_crawl, mode))
            except Exception:  # noqa: BLE001 - the test shows it
                results[name] = {"error": traceback.format_exc()}
    return results


def run_in(mode: str, work: Callable[[], Coroutine[Any, Any, dict[str, Any]]]) -> dict[str, Any]:
    """Run a coroutine in a runtime, and return its result."""
    if mode == "none":
        from scrapy.utils.reactorless import install_reactor_import_hook  # noqa: PLC0415 - only without a reactor

        install_reactor_import_hook()
        return asyncio.run(work())
    install_reactor(ASYNCIO_REACTOR if mode == "asyncio" else SELECT_REACTOR)
    from scrapy.utils.defer import deferred_from_coro  # noqa: PLC0415 - after the reactor
    from twisted.internet import reactor as installed  # noqa: PLC0415 - as above

    reactor: Any = installed  # the module stands for the reactor
    results: dict[str, Any] = {}

    def go() -> None:
        deferred = deferred_from_coro(work())
        deferred.addCallback(results.update)
        deferred.addBoth(lambda _: reactor.stop())

    reactor.callWhenRunning(go)
    reactor.run()
    return results


if __name__ == "__main__":
    sys.stdout.write(json.dumps(run_in(sys.argv[1], partial(run_all, *sys.argv[1:]))))
