"""Failures of the crawl itself, and of proxies. See scenarios_local_faults.py and
scenarios_failing_proxies.py.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import pytest
from pytest_twisted import ensureDeferred
from scrapy.exceptions import IgnoreRequest
from scrapy.http import TextResponse

from tests.support.crawling import SETTINGS, crawl, records, short
from tests.support.scenarios_local_faults import NEVER, SECRET

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.http import Response

    from tests.support.runtimes import Results

FAILED = "ERROR http://SITE/robots.txt could not be requested because the crawl itself failed ("
FOLLOWS = "): nothing is allowed until this is fixed; "
HANDLERS = "scrapy.core.downloader.handlers.DownloadHandlers"
FIX = "fix it, or remove it from the settings"


def proxied(results: Results, name: str) -> list[Any]:
    """Return the result of a scenario with proxies."""
    found: list[Any] = results[name]["found"]
    if not found:
        pytest.skip("without a reactor, this version of Scrapy sends nothing through a proxy")
    return found


def test_spider_that_stops_its_transfers(results: Results) -> None:
    """A spider that stops every transfer does not stop robots.txt."""
    found = results["stopped"]["found"]
    assert len(found) >= 2
    assert all(
        outcome == [name, [200, "rule"], ["/a"]] for outcome in found for name in [outcome[0]]
    )


@pytest.mark.parametrize(
    ("name", "cause", "advice"),
    [
        ("Middleware", "Middleware: KeyError: 'token'", FIX),
        ("Offline", "Offline: ConnectionRefusedError: [Errno 111] Connection refused", FIX),
        ("Crashing", "Crashing: AttributeError: no attribute `session`", FIX),
        (
            "Dropping",
            "Dropping: IgnoreRequest: not in the list",
            "let it pass requests for robots.txt, or name the site in ROBOTS_EXEMPT",
        ),
        (
            "Unloadable",
            f"{HANDLERS}: NotSupported: Unsupported URL scheme 'http': needs the `nowhere` library",
            "check DOWNLOAD_HANDLERS, and install what the handler needs",
        ),
    ],
)
def test_local_fault_closes_the_gate_and_is_named_once(
    results: Results, name: str, cause: str, advice: str
) -> None:
    """If a part of the crawl fails, nothing is allowed; one log line says what to do, and nothing
    is cached.
    """
    found = dict(results["local"][name])
    first, *traceback = found.pop("log")[0].split("\n")
    assert len(results["local"][name]["log"]) == 1
    assert first == f"{FAILED}{cause}{FOLLOWS}{advice}"
    assert bool(traceback) is (advice == FIX)
    # A failure decides for the requests of the next second, so both pages may share one.
    asked = found.pop("asked")
    assert asked in (1, 2)
    assert found == {"outcomes": ["local", "local"], "targets": [], "counted": [2, asked]}


def test_own_downloader_serves_every_site(results: Results) -> None:
    """A DOWNLOADER without Scrapy's names serves every site, with one warning for each name."""
    log = results["own_downloader"]["log"]
    assert results["own_downloader"]["outcomes"] == [200, "rule", 200]
    assert all("this version of Scrapy has no" in line for line in log)
    assert len(log) == len(set(log))


def test_each_route_has_a_fetch_of_its_own(results: Results) -> None:
    """If a proxy fails, the file is fetched for requests with another proxy."""
    found = proxied(results, "routes")
    cases = [[False, ""], [False, "407"], [True, ""], [True, "407"], [True, "502"]]
    assert [case[:2] for case in found] == cases * (len(found) // len(cases))
    assert all([*case[2:4], case[5]] == [200, "rule", 1] for case in found)
    # A request with the proxy that fails may find the file of the other one; else it is closed that
    # way.
    assert {case[4] for case in found} <= {"unreachable", "rule"}


def test_route_of_a_later_request(results: Results) -> None:
    """A proxy that fails closes the site at once, for its own requests only."""
    found = proxied(results, "later_route")
    assert found == [["unreachable", 200, "rule"]] * len(found)


def test_attempts_of_each_route(results: Results) -> None:
    """A site that answers 503 through one proxy is retried, although another proxy failed."""
    found = proxied(results, "second_attempt")
    assert [case[1:] for case in found] == [["rule", 2]] * len(found)


def test_hanging_proxy_delays_no_other_for_long(results: Results) -> None:
    """A proxy that hangs closes the site for its own requests after ROBOTS_TIMEOUT."""
    found = proxied(results, "hanging_proxy")
    assert [outcome for outcome, _ in found] == [200] * len(found)
    assert all("through proxy" in line for _, lines in found for line in lines)


def test_failing_proxy_closes_the_site_for_its_own_requests(results: Results) -> None:
    """The log and the reason name a failing proxy, without its password."""
    causes = [
        "connection refused",
        "407 Proxy Authentication Required",
        "connection refused",
        "407 to CONNECT",
    ]
    found = proxied(results, "one_route")
    for number, case in enumerate(found):
        cause = f"{causes[number % 4]}, through proxy http://PROXY"
        scheme = "https" if number % 4 > 1 else "http"
        warning = (
            f"WARNING {scheme}://SITE/robots.txt is unreachable ({cause}): nothing is allowed"
            " that way; the next attempt is in 300 s"
        )
        assert case == {
            "outcomes": ["unreachable", "unreachable", 200, "rule"],
            "asked": number % 2,
            "why": ["robots.txt line 2: Disallow: /x", f"robots.txt unreachable: {cause}"],
            "log": [warning],
        }
        assert SECRET not in str(case)


def test_only_a_proxy_leads_there(results: Results) -> None:
    """A site that needs a proxy is fetched through one, whichever request comes first."""
    found = proxied(results, "direct_fails")
    half = len(found) // 2
    assert found[:half] == [["unreachable", 200, "rule"]] * half
    assert found[half:] == [["CannotResolveHostError", 200, "rule"]] * half


def test_proxy_of_the_environment(results: Results) -> None:
    """A proxy from the environment is a route like any other."""
    found = proxied(results, "environment")
    assert found == [[["unreachable", "unreachable", 200], 1, [True]]] * len(found)


def test_failure_of_a_proxy_is_not_shared(results: Results) -> None:
    """The failure of a proxy is not stored for other crawls."""
    found = proxied(results, "not_shared")
    assert found == [["unreachable", 200, "rule"]] * len(found)


def test_earlier_file_is_obeyed(results: Results) -> None:
    """If a proxy or a part of the crawl fails, an earlier file is obeyed as stale."""
    found = results["stale"]["found"]
    assert found == [[200, "rule", True, 1]] * len(found) != []


def test_causes_are_the_same_with_every_handler(results: Results) -> None:
    """The causes in the log are the same with every download handler."""
    for found in results["causes"]["found"]:
        assert found.pop("no http").startswith("no valid HTTP answer: ")
        garbled = found.pop("garbled header")  # aiohttp's handler fails on what is not UTF-8
        assert garbled == "503" or garbled.startswith(
            "its answer cannot be read: UnicodeEncodeError: "
        )
        assert found == {
            "refused": "connection refused",
            "unknown": "unknown host",
            "tls": "TLS: wrong version number",
            "closed": "connection closed without an answer",
            "reset": "connection reset",
            "cut": "the transfer broke off",
            "hang": "no answer in 1 s",
        }


class Fallback:
    """A middleware that answers for every failed download."""

    def process_exception(self, request: Request, exception: Exception) -> Response | None:
        """Return an empty response."""
        return (
            None
            if isinstance(exception, IgnoreRequest)
            else TextResponse(request.url, body=b"", request=request)
        )


@ensureDeferred
async def test_answer_of_a_middleware_in_place_of_a_download_that_failed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """An answer that a middleware makes up for a failed robots.txt allows nothing."""
    ours = SETTINGS["DOWNLOADER_MIDDLEWARES"]
    page = "http://127.0.0.1:1/a"  # no server listens there
    result = await crawl([page], {**NEVER, "DOWNLOADER_MIDDLEWARES": {**ours, Fallback: 560}})
    assert short(result.outcomes[page]) == "local"
    [line] = records(caplog, logging.ERROR)
    assert "another downloader middleware: answered 200 in place of a download that failed" in line
