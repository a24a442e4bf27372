"""Parsers that a user might set, for better or worse."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from scrapy.robotstxt import RobotParser

if TYPE_CHECKING:
    from typing import Self


class Fixed(RobotParser):
    """Allows what ends in `yes`; notes the user agents that it was asked about."""

    asked: ClassVar[list[Any]] = []

    @classmethod
    def from_crawler(cls, crawler: Any, robotstxt_body: bytes) -> Self:
        """Ignore the body."""
        return cls()

    def allowed(self, url: str | bytes, user_agent: str | bytes) -> bool:
        """Decide by the URL."""
        self.asked.append(user_agent)
        return str(url).endswith("yes")

    def crawl_delay(self, user_agent: str | bytes) -> float | None:
        """Give a number that no file has."""
        return 0.07


class FailsToParse(Fixed):
    """Raises on every file but the empty one that is tried at start."""

    @classmethod
    def from_crawler(cls, crawler: Any, robotstxt_body: bytes) -> Self:
        """Raise."""
        if robotstxt_body:
            raise RuntimeError("cannot parse")
        return cls()


class Undecided(Fixed):
    """Gives something that is no verdict, though it is true for Python."""

    def allowed(self, url: str | bytes, user_agent: str | bytes) -> bool:
        """Say no, in words."""
        return "no"  # type: ignore[return-value]  # the mistake that it stands for


class FailsToDecide(Fixed):
    """Raises on every URL."""

    def allowed(self, url: str | bytes, user_agent: str | bytes) -> bool:
        """Raise."""
        raise RuntimeError("cannot decide")
