"""A Scrapy plugin that makes crawls obey robots.txt according to RFC 9309.

The names in this module are the public API. They are imported lazily, so that importing the parser
does not load the rest of the package, and `scrapy_robots_rfc.core` works without Scrapy.
"""

from importlib import import_module, metadata
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # `as` marks the names as public for type checkers
    from scrapy_robots_rfc.addon import Addon as Addon
    from scrapy_robots_rfc.cache.stores.base import SharedStore as SharedStore, Store as Store
    from scrapy_robots_rfc.core.decision import (
        Decision as Decision,
        Reason as Reason,
        Rule as Rule,
        RuleKind as RuleKind,
    )
    from scrapy_robots_rfc.core.response import robots_from_response as robots_from_response
    from scrapy_robots_rfc.core.robotstxt import RobotsTxt as RobotsTxt

    __version__: str
    from scrapy_robots_rfc.errors import RobotsDisallowed as RobotsDisallowed
    from scrapy_robots_rfc.fetching.service import RobotsService as RobotsService
    from scrapy_robots_rfc.middleware.downloader import (
        RfcRobotsTxtMiddleware as RfcRobotsTxtMiddleware,
        robots_service as robots_service,
    )
    from scrapy_robots_rfc.parser import RfcRobotParser as RfcRobotParser
    from scrapy_robots_rfc.scheduling.queue import OriginPriorityQueue as OriginPriorityQueue
    from scrapy_robots_rfc.scheduling.scheduler import scheduler_around as scheduler_around
    from scrapy_robots_rfc.usage.page_rules import (
        RfcPageRulesMiddleware as RfcPageRulesMiddleware,
        page_rules as page_rules,
    )
    from scrapy_robots_rfc.usage.rules import PageRules as PageRules
    from scrapy_robots_rfc.usage.use import RfcUseMiddleware as RfcUseMiddleware

#: Public name -> the module that defines it.
_MODULES = {
    "Addon": "addon",
    "Decision": "core.decision",
    "OriginPriorityQueue": "scheduling.queue",
    "PageRules": "usage.rules",
    "Reason": "core.decision",
    "RfcPageRulesMiddleware": "usage.page_rules",
    "RfcRobotParser": "parser",
    "RfcRobotsTxtMiddleware": "middleware.downloader",
    "RfcUseMiddleware": "usage.use",
    "RobotsDisallowed": "errors",
    "RobotsService": "fetching.service",
    "RobotsTxt": "core.robotstxt",
    "Rule": "core.decision",
    "RuleKind": "core.decision",
    "SharedStore": "cache.stores.base",
    "Store": "cache.stores.base",
    "page_rules": "usage.page_rules",
    "robots_from_response": "core.response",
    "robots_service": "middleware.downloader",
    "scheduler_around": "scheduling.scheduler",
}
__all__ = list(_MODULES)


if not TYPE_CHECKING:  # otherwise, type checkers would accept any name

    def __getattr__(name: str) -> object:
        if name == "__version__":
            return metadata.version("scrapy-robots-rfc")
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
        globals()[name] = value  # so that this function is not called again for this name
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
