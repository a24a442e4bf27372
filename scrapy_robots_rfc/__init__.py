"""A Scrapy plugin that makes a crawl obey robots.txt as RFC 9309 says, and says why. Public names and nothing else."""

from scrapy_robots_rfc.addon import Addon
from scrapy_robots_rfc.core.decision import Decision, Reason, Rule, RuleKind
from scrapy_robots_rfc.core.robotstxt import RobotsTxt
from scrapy_robots_rfc.early import RfcEarlyMiddleware
from scrapy_robots_rfc.errors import RobotsDisallowed
from scrapy_robots_rfc.middleware import RfcRobotsTxtMiddleware, robots_service
from scrapy_robots_rfc.parser import RfcRobotParser
from scrapy_robots_rfc.service import RobotsService
from scrapy_robots_rfc.sitemaps import RobotsSitemaps

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
    "robots_service",
]
