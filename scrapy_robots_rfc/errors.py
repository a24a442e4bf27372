"""The exceptions raised by this package."""

import copyreg
from typing import Any

from scrapy.exceptions import IgnoreRequest

from scrapy_robots_rfc.core.decision import Decision


class RobotsError(Exception):
    """The base class for all exceptions in this package. They can be copied and pickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        # By default, unpickling calls the class with `args`, which does not work for most
        # subclasses.
        new: Any = copyreg.__newobj__  # type: ignore[attr-defined]
        return new, (type(self), *self.args), self.__dict__


class SettingError(RobotsError, ValueError):
    """Raised at startup if the value of a setting or spider attribute is not accepted.

    :param key: the name of the setting or attribute, including the index or key of an invalid
        entry.
    :param value: the value of the setting or entry.
    :param accepted: a description of the accepted values.
    """

    def __init__(self, key: str, value: object, accepted: str) -> None:
        try:
            shown = repr(value)
        except ValueError:  # Python refuses to print integers with thousands of digits
            shown = "a value too long to be shown"
        super().__init__(f"{key} = {shown} is not accepted. It must be {accepted}")
        self.key: str = key
        self.value: object = value
        self.accepted: str = accepted


class MissingPackageError(SettingError):
    """Raised at startup if a setting requires a package that is not installed."""

    def __init__(self, key: str, value: object, package: str) -> None:
        super().__init__(key, value, "unset")
        self.args = (  # replaces the message
            f"{key} needs the package {package}, which is not installed: pip install {package}",
        )


def error_of_component(key: str, value: object, accepted: str, error: Exception) -> SettingError:
    """Return the error for a setting whose class cannot be loaded or instantiated.

    :param error: the exception that was raised.
    """
    package = error.name if isinstance(error, ModuleNotFoundError) else None
    # If the user's import path starts with the missing name, the path is wrong. Otherwise, the
    # user's module imports a package that is not installed.
    if package and not str(value).startswith(package):
        return MissingPackageError(key, value, package)
    return SettingError(key, value, f"{accepted} ({type(error).__name__}: {error})")


class StoreError(RobotsError):
    """Raised if the robots.txt store fails or cannot be opened.

    The message does not contain credentials.
    """


class JobDirError(RobotsError):
    """Raised at startup if the requests in JOBDIR cannot be used, for example by a second crawl."""


class AgentError(RobotsError, ValueError):
    """Raised if a request's ``robotstxt_user_agent`` or ``robots_declared_use`` is not accepted.

    They come from its meta, or ``robotstxt_user_agent`` comes from the spider. The request fails.
    This is not an `IgnoreRequest`, because Scrapy would not log that.
    """


class RobotsDisallowed(RobotsError, IgnoreRequest):  # noqa: N818 - like IgnoreRequest
    """Passed to the errback of a request that is disallowed (RFC 9309, 2.2.2 and 2.3.1.4).

    :param decision: the decision, with its reason and rule.
    :param why: a human-readable reason, such as ``robots.txt line 3: Disallow: /x``.
    :param by: the file or header that disallows the page.
    """

    def __init__(self, decision: Decision, why: str, by: str = "robots.txt") -> None:
        super().__init__(f"Forbidden by {by} ({why})")
        self.decision = decision
        self.why = why


class UnreachableError(RobotsError):
    """Raised in ``scrapy shell`` and ``scrapy fetch`` if the robots.txt file is unreachable.

    This is not an `IgnoreRequest`, because these commands would not show that.
    """


class RobotsUndecided(RobotsError, IgnoreRequest):  # noqa: N818 - like IgnoreRequest
    """Passed to the errback of a request if the spider closes before the request can be sent.

    Requests from the scheduler do not fail with this error. They return to the scheduler instead.
    """


class BrokenTransferError(RobotsError):
    """Raised if the transfer of a robots.txt file ends before the file is complete."""


class ComponentError(RobotsError):
    """Raised if a component of the crawl keeps a robots.txt from being requested or received.

    :param advice: what the user can do about it.
    """

    def __init__(self, message: str, advice: str) -> None:
        super().__init__(message)
        self.advice = advice


class DecodingError(RobotsError):
    """Raised if a robots.txt file has an unknown content coding, or if its data is damaged."""


def sqlite_code(error: Exception) -> int:
    """Return the primary result code of an error, or 0 if SQLite didn't report it."""
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF
