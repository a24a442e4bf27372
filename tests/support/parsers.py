"""Third-party parsers, some of them broken."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from scrapy.robotstxt import RobotParser

if TYPE_CHECKING:
    from typing import Self


class Fixed(RobotParser):
    """Allows URLs that end in `yes`, and records the user agents."""

    asked: ClassVar[list[Any]] = []

    @classmethod
    def from_crawler(cls, crawler: Any, robotstxt_body: bytes) -> Self:
        return cls()

    def allowed(self, url: str | bytes, user_agent: str | bytes) -> bool:
        self.asked.append(user_agent)
        return str(url).endswith("yes")

    def crawl_delay(self, user_agent: str | bytes) -> float | None:
        return 0.2


class FailsToParse(Fixed):
    """Raises for every file but the empty one that is tried at start."""

    @classmethod
    def from_crawler(cls, crawler: Any, robotstxt_body: bytes) -> Self:
        if robotstxt_body:
            raise RuntimeError("cannot parse")
        return cls()
