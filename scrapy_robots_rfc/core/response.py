"""Turn the response to a robots.txt request into a file, for scripts (RFC 9309, 2.3.1)."""

from collections.abc import Sequence

from scrapy_robots_rfc.core.decision import Decision, Reason
from scrapy_robots_rfc.core.percent import request_target
from scrapy_robots_rfc.core.robotstxt import RobotsTxt
from scrapy_robots_rfc.core.ruleset import ROBOTS_TXT

# Statuses below 500 that do not say whether there is a file: a proxy requires credentials, or there
# were too many requests.
_UNKNOWN = (407, 429)


class _WithoutFile(RobotsTxt):
    """The robots.txt of a site whose file is unavailable or unreachable."""

    def __init__(self, reason: Reason) -> None:
        super().__init__()
        self._decision = Decision(reason is Reason.UNAVAILABLE, reason)

    def decide(self, url: str | bytes, tokens: str | Sequence[str]) -> Decision:
        """Return the same decision for every URL except for robots.txt itself."""
        super().decide(url, tokens)  # check the arguments
        if request_target(url) == ROBOTS_TXT:
            return Decision(True, Reason.ROBOTS_TXT)
        return self._decision

    def __repr__(self) -> str:
        return f"<RobotsTxt: {self._decision.reason.value}>"


def robots_from_response(
    status: int | None, body: bytes | str | None = None, *, max_size: int = RobotsTxt.MAX_SIZE
) -> RobotsTxt:
    """Return the robots.txt that applies after a response.

    After 2xx, that is the file. After 3xx and 4xx, everything is allowed (RFC 9309, 2.3.1.3),
    except that 407 and 429 say nothing about the file. After them and anything else, nothing is
    allowed (2.3.1.4). After 304 to a conditional request, use the copy instead of this function.

    :param status: the status of the last response, after up to five redirects, or `None` if there
        was no response.
    :param body: the body without any content coding, which a 2xx status requires. Any text is
        accepted, because a site may even send a URL as its file.
    :param max_size: see `RobotsTxt.parse`.
    :raises TypeError: if `status` is neither an int nor `None`, or if `body` is neither bytes nor a
        str after 2xx.
    """
    if status is not None and not isinstance(status, int):
        raise TypeError(f"the status must be an int or None, not {type(status).__name__}")
    if status is not None and 200 <= status <= 299:
        if body is None:
            raise TypeError(f'status {status} needs the body; pass b"" if it is empty')
        data = body.encode(errors="surrogatepass") if isinstance(body, str) else body
        return RobotsTxt.parse(data, max_size=max_size)
    is_unavailable = status is not None and 300 <= status <= 499 and status not in _UNKNOWN
    return _WithoutFile(Reason.UNAVAILABLE if is_unavailable else Reason.UNREACHABLE)
