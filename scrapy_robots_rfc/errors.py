"""The errors of this package.

Bad data of a site never stops a crawl: the last three count as a failed fetch.
"""

import copyreg
from typing import Any

from scrapy.exceptions import IgnoreRequest

from scrapy_robots_rfc.core.decision import Decision


class RobotsError(Exception):
    """The base class of all errors of this package. They can be copied and pickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        # The default calls the class with the text alone, but most of these classes take other
        # arguments.
        return copyreg.__newobj__, (type(self), *self.args), self.__dict__  # type: ignore[attr-defined]


class SettingError(RobotsError, ValueError):
    """A setting or a spider attribute has a value that is not accepted; stops the crawl at start.

    :param key: the name of the setting or attribute, and the place of the entry if only one entry
        is wrong.
    :param value: its value, or that of the entry.
    :param accepted: what is accepted, for the user.
    """

    def __init__(self, key: str, value: object, accepted: str) -> None:
        try:
            shown = repr(value)
        except ValueError:  # Python writes no integer of more than some thousand digits
            shown = "a value too long to be shown"
        super().__init__(f"{key} = {shown} is not accepted; it must be {accepted}")
        self.key: str = key
        self.value: object = value
        self.accepted: str = accepted


class StoreError(RobotsError):
    """A store of robots.txt files cannot work, or failed.

    The text says what to do, without credentials.
    """


class AgentError(RobotsError, ValueError):
    """Request meta ``robotstxt_user_agent`` or ``robots_declared_use`` has a value of another type.

    The request fails, and Scrapy logs the error. It is no IgnoreRequest, because Scrapy does not
    log those.
    """


class RobotsDisallowed(RobotsError, IgnoreRequest):  # noqa: N818 - named like Scrapy's IgnoreRequest
    """The page may not be fetched (RFC 9309, 2.2.2 and 2.3.1.4); the request's errback gets this.

    :param decision: the decision, with its reason and its rule.
    :param why: the reason for people, for example ``robots.txt line 3: Disallow: /x``.
    :param by: what forbids it.
    """

    def __init__(self, decision: Decision, why: str, by: str = "robots.txt") -> None:
        super().__init__(f"Forbidden by {by} ({why})")
        self.decision = decision
        self.why = why


class UnreachableError(RobotsError):
    """A command of Scrapy's for one page gets no page, as its robots.txt is unreachable.

    It is no IgnoreRequest, about which ``scrapy shell`` and ``scrapy fetch`` say nothing.
    """


class RobotsUndecided(RobotsError, IgnoreRequest):  # noqa: N818 - as above
    """The spider was closed before the request was decided, or before its turn: it is not fetched.

    Only requests that never passed the scheduler fail with it; the others go back to the scheduler.
    """


class BrokenTransferError(RobotsError):
    """The transfer of a robots.txt ended before the whole file was there; the text says how."""


class ForeignAnswerError(RobotsError):
    """A downloader middleware, and not the site, answered for a robots.txt that was not there."""


class DecodingError(RobotsError):
    """The content coding of a robots.txt is unknown, or its data are broken or end too early."""
