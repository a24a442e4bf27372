"""The errors of this package.

Bad data from a site never stops a crawl: the last three errors count as a failed fetch.
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
    """The value of a setting or spider attribute is not accepted. The crawl does not start.

    :param key: the name of the setting or attribute, with the index or key of a wrong entry.
    :param value: the value of the setting or of the entry.
    :param accepted: a description of the accepted values.
    """

    def __init__(self, key: str, value: object, accepted: str) -> None:
        try:
            shown = repr(value)
        except ValueError:  # Python refuses to print integers of several thousand digits
            shown = "a value too long to be shown"
        super().__init__(f"{key} = {shown} is not accepted; it must be {accepted}")
        self.key: str = key
        self.value: object = value
        self.accepted: str = accepted


class MissingPackageError(SettingError):
    """A setting needs a package that is not installed. The crawl does not start."""

    def __init__(self, key: str, value: object, package: str) -> None:
        super().__init__(key, value, "unset")
        problem = f"needs the package {package}, which is not installed"
        self.args = (f"{key} {problem}: pip install {package}",)


def error_of_component(key: str, value: object, accepted: str, error: Exception) -> SettingError:
    """Return the error of a setting whose class cannot be loaded or created.

    :param error: the exception that loading or creating the class raised.
    """
    package = error.name if isinstance(error, ModuleNotFoundError) else None
    # If the value begins with the name, the path is wrong, and no package is missing.
    if package and not str(value).startswith(package):
        return MissingPackageError(key, value, package)
    return SettingError(key, value, f"{accepted} ({type(error).__name__}: {error})")


class StoreError(RobotsError):
    """A store of robots.txt files failed or cannot be opened.

    The text says what to do, and has no credentials.
    """


class AgentError(RobotsError, ValueError):
    """The meta ``robotstxt_user_agent`` or ``robots_declared_use`` of a request has a wrong type.

    The request fails, and Scrapy logs the error. This is not an `IgnoreRequest`, because Scrapy
    does not log those.
    """


class RobotsDisallowed(RobotsError, IgnoreRequest):  # noqa: N818 - named like Scrapy's IgnoreRequest
    """The page may not be fetched (RFC 9309, 2.2.2 and 2.3.1.4); the request's errback gets this.

    :param decision: the decision, with its reason and its rule.
    :param why: the reason in words, for example ``robots.txt line 3: Disallow: /x``.
    :param by: the file or header that disallows the page.
    """

    def __init__(self, decision: Decision, why: str, by: str = "robots.txt") -> None:
        super().__init__(f"Forbidden by {by} ({why})")
        self.decision = decision
        self.why = why


class UnreachableError(RobotsError):
    """A Scrapy command for one page does not get it, because its robots.txt is unreachable.

    This is not an `IgnoreRequest`, because ``scrapy shell`` and ``scrapy fetch`` do not report
    those.
    """


class RobotsUndecided(RobotsError, IgnoreRequest):  # noqa: N818 - named like Scrapy's IgnoreRequest
    """The spider closed before the request was decided or had its turn. It is not fetched.

    Only requests that did not come from the scheduler fail with this; others return to it.
    """


class BrokenTransferError(RobotsError):
    """The transfer of a robots.txt ended before the file was complete; the text says how."""


class ForeignAnswerError(RobotsError):
    """A downloader middleware, and not the site, answered for a missing robots.txt."""


class DecodingError(RobotsError):
    """The content coding of a robots.txt is unknown, or its data is broken or incomplete."""
