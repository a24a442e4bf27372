"""The schemes whose robots.txt is obeyed: port, what an answer means, how a file is read.

RFC 9309, 2.3 names HTTP and FTP; Gemini has a companion specification, "robots.txt for Gemini".
ROBOTS_SCHEMES adds schemes and takes them away.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple
from urllib.parse import urljoin, urlsplit


class Answers(enum.Enum):
    """What the status of an answer is. The values are those of ROBOTS_SCHEMES."""

    #: RFC 9110.
    HTTP = "http"
    #: Those that Scrapy's handler gives: 200, and 404 for FTP's 550.
    FTP = "ftp"
    #: Two digits. A handler may give statuses of HTTP instead.
    GEMINI = "gemini"


class Dialect(enum.Enum):
    """How a file is read. The values are those of ROBOTS_SCHEMES."""

    RFC9309 = "rfc9309"
    #: See `core/gemini.py`.
    GEMINI = "gemini"


class Scheme(NamedTuple):
    """What is to be known of a scheme; its robots.txt is ``scheme://authority/robots.txt``.

    :param port: the port of a URL that names none.
    """

    port: int
    answers: Answers = Answers.HTTP
    dialect: Dialect = Dialect.RFC9309

    def http_status(self, status: int) -> int:
        """Return the status of HTTP that means the same for a robots.txt (RFC 9309, 2.3.1)."""
        if self.answers is Answers.FTP:
            return status if status in (200, 404) else 503
        if self.answers is Answers.GEMINI and status < 100:
            return _GEMINI.get(status // 10, 503)
        return status


# The first digit of a Gemini status -> what it means. After all others, such as 4x and 60, the file
# is unknown.
_GEMINI = {2: 200, 3: 302, 5: 404}

#: The schemes that are obeyed unless a setting says otherwise (RFC 9110, 4.2; RFC 959, 8; Gemini).
SCHEMES: Mapping[str, Scheme] = MappingProxyType({
    "http": Scheme(80),
    "https": Scheme(443),
    "ftp": Scheme(21, Answers.FTP),
    "gemini": Scheme(1965, Answers.GEMINI, Dialect.GEMINI),
})  # fmt: skip
#: What a description of ROBOTS_SCHEMES may be.
SCHEME_ACCEPTED = (
    "None for 'ftp' or 'gemini'; or, for a scheme of your own with a name in lower case, "
    "{'port': NUMBER from 1 to 65535} and, where they differ from those of http, "
    "'answers': 'ftp' or 'gemini', and 'rules': 'gemini'"
)
_NAME = re.compile("[a-z][a-z0-9+.-]*")  # RFC 3986, 3.1
# Always obeyed, or without a host that could have a robots.txt.
_FIXED = {"http", "https", "data", "file", "mailto"}


def with_scheme(
    schemes: Mapping[str, Scheme], name: object, description: object
) -> Mapping[str, Scheme]:
    """Return schemes with one more, or one less.

    :param description: what ROBOTS_SCHEMES says of it; ``None`` takes it away: its pages pass.
    :raises ValueError: name or description are not accepted.
    """
    others = {other: scheme for other, scheme in schemes.items() if other != name}
    if not isinstance(name, str) or not _NAME.fullmatch(name) or name in _FIXED:
        raise ValueError(name)
    if description is None and name in schemes:
        return others
    if name in SCHEMES or not isinstance(description, Mapping):
        raise ValueError(name, description)
    port = description.get("port")
    if type(port) is not int or not 0 < port < 65_536:
        raise ValueError(port)
    if not {*description} <= {"port", "answers", "rules"}:
        raise ValueError(description)
    answers = Answers(description.get("answers", Answers.HTTP))
    rules = Dialect(description.get("rules", Dialect.RFC9309))
    return {**others, name: Scheme(port, answers, rules)}


def joined(base: str, reference: str) -> str:
    """Do what `urljoin` does, also for schemes whose relative references it does not join.

    :raises ValueError: the reference is no URL.
    """
    scheme = base.partition(":")[0]
    if scheme in ("http", "https") or urlsplit(reference).scheme:
        return urljoin(base, reference)
    return scheme + urljoin(f"http{base[len(scheme) :]}", reference).removeprefix("http")
