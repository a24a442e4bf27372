"""A Scrapy plugin that makes a crawl obey robots.txt as RFC 9309 says, and says why.

This file has the public names. Each is imported when it is first used, so that whoever needs only the parser does not
load the rest of the package, and `scrapy_robots_rfc.core` is loaded without Scrapy.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scrapy_robots_rfc.addon import Addon
    from scrapy_robots_rfc.cache.stores.base import SharedStore, Store
    from scrapy_robots_rfc.core.decision import Decision, Reason, Rule, RuleKind
    from scrapy_robots_rfc.core.robotstxt import RobotsTxt
    from scrapy_robots_rfc.errors import RobotsDisallowed
    from scrapy_robots_rfc.fetching.service import RobotsService
    from scrapy_robots_rfc.middleware.downloader import RfcRobotsTxtMiddleware, robots_service
    from scrapy_robots_rfc.middleware.early import RfcEarlyMiddleware
    from scrapy_robots_rfc.middleware.sitemaps import RobotsSitemaps
    from scrapy_robots_rfc.parser import RfcRobotParser

__all__ = [
    "Addon",
    "Decision",
    "Reason",
    "RfcEarlyMiddleware",
    "RfcRobotParser",
    "RfcRobotsTxtMiddleware",
    "RobotsDisallowed",
    "RobotsService",
    "RobotsSitemaps",
    "RobotsTxt",
    "Rule",
    "RuleKind",
    "SharedStore",
    "Store",
    "robots_service",
]

#: The module that defines each public name.
_MODULES = {
    "Addon": "addon",
    "Decision": "core.decision",
    "Reason": "core.decision",
    "RfcEarlyMiddleware": "middleware.early",
    "RfcRobotParser": "parser",
    "RfcRobotsTxtMiddleware": "middleware.downloader",
    "RobotsDisallowed": "errors",
    "RobotsService": "fetching.service",
    "RobotsSitemaps": "middleware.sitemaps",
    "RobotsTxt": "core.robotstxt",
    "Rule": "core.decision",
    "RuleKind": "core.decision",
    "SharedStore": "cache.stores.base",
    "Store": "cache.stores.base",
    "robots_service": "middleware.downloader",
}


if not TYPE_CHECKING:  # to a type checker, a module with `__getattr__` has every name

    def __getattr__(name: str) -> object:
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
        globals()[name] = value  # so that this function is called once for each name
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
