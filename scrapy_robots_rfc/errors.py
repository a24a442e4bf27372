"""Every error that leaves this package, by whose fault it is: a setting's, a request's, or the site does not want it.

Hostile input raises none of them: what a site sends becomes a value.
"""

from __future__ import annotations

import copyreg
from typing import TYPE_CHECKING, Any

from scrapy.exceptions import IgnoreRequest

if TYPE_CHECKING:
    from scrapy_robots_rfc.core.decision import Decision


class RobotsError(Exception):
    """The root of the tree. Each error can be copied and pickled, with all its attributes, those of subclasses too."""

    def __reduce__(self) -> tuple[Any, ...]:
        # An exception's own way calls the class with the text alone, which few of these accept.
        return copyreg.__newobj__, (type(self), *self.args), self.__dict__  # type: ignore[attr-defined]


class SettingError(RobotsError, ValueError):
    """A setting or a spider attribute has a value that is not accepted; stops the crawl at start.

    :param key: the name of the setting or attribute.
    :param value: the value that it has.
    :param accepted: what would be accepted, for the user.
    """

    def __init__(self, key: str, value: object, accepted: str) -> None:
        super().__init__(f"{key} = {value!r} is not accepted; it must be {accepted}")
        self.key, self.value, self.accepted = key, value, accepted


class StoreError(RobotsError):
    """A store of robots.txt files cannot work, or failed; the text says what to do, and holds no credentials."""


class AgentError(RobotsError, ValueError):
    """Request meta ``robotstxt_user_agent`` is neither a string nor a list of strings.

    The request fails, and Scrapy logs it as an error. No IgnoreRequest, because Scrapy is silent about those.
    """


class RobotsDisallowed(RobotsError, IgnoreRequest):  # noqa: N818 - as IgnoreRequest: no error, a verdict
    """The page may not be fetched (RFC 9309, 2.2.2 and 2.3.1.4). Reaches the errback of the request.

    :param decision: the verdict and what it rests on.
    :param why: the same for people, for example ``robots.txt line 3: Disallow: /x``.
    """

    def __init__(self, decision: Decision, why: str) -> None:
        super().__init__(f"Forbidden by robots.txt ({why})")
        self.decision = decision
        self.why = why


class RobotsUndecided(RobotsError, IgnoreRequest):  # noqa: N818 - as above
    """The spider was closed before robots.txt was there: the page was not decided, and is not fetched.

    Only requests that never passed the scheduler end with it; the others go back there.
    """


class BrokenTransferError(RobotsError):
    """The transfer of a robots.txt ended before its end; the text says how."""


class DecodingError(RobotsError):
    """A robots.txt came in a content coding that is unknown, or is broken, or breaks off."""
