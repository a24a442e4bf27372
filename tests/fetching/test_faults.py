"""The classification of exceptions that the crawls of other tests do not raise."""

from __future__ import annotations

import errno
import os
import ssl
import subprocess
import sys
from typing import Any

import pytest
from twisted.internet.error import ConnectBindError, DNSLookupError

from scrapy_robots_rfc._runtime import TIMEOUT_ERRORS
from scrapy_robots_rfc.errors import DecodingError
from scrapy_robots_rfc.fetching.faults import access_after
from scrapy_robots_rfc.policy.access import Local, Unreachable

HTTPX = ("httpx", "httpx2")


def foreign(package: str, name: str, base: type[Exception] = Exception) -> type[Exception]:
    """Make an exception class of a package that need not be installed."""
    return type(name, (base,), {"__module__": f"{package}.errors"})


def caused(error: Exception, cause: BaseException) -> Exception:
    """Raise an exception from another one, and return it."""
    try:
        raise error from cause
    except Exception as raised:  # noqa: BLE001 - it is what was made
        return raised


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        (foreign("curl_cffi", "CurlError")("Could not resolve"), "CurlError: Could not resolve"),
        (foreign("playwright", "Error")("net::ERR_FAILED\n  at x"), "Error: net::ERR_FAILED at x"),
        (foreign("zyte_api", "RequestError")(), "RequestError"),
        (
            foreign("requests", "Timeout", foreign("requests", "RequestException"))("late"),
            "Timeout: late",
        ),
        (OSError(errno.EHOSTUNREACH, "No route to host"), "OSError: [Errno 113] No route to host"),
        (ssl.SSLError(1, "[SSL: TLSV1_ALERT] it failed"), "TLS: [ssl: tlsv1 alert] it failed"),
        (ConnectionResetError(errno.ECONNRESET, "x"), "connection reset"),
        (
            caused(foreign("myhandler", "Mine")("x"), ConnectionRefusedError(111, "x")),
            "connection refused",
        ),
        (
            foreign("aiohttp", "ClientError")("http://user:secret@a.example/ \x1b[31m"),
            "ClientError: http://a.example/ \\x1b[31m",
        ),
        *(
            (foreign(name, "TransportError")("x" * 1000), f"TransportError: {'x' * 97}...")
            for name in HTTPX
        ),
        (DecodingError("unknown content coding"), "unknown content coding"),
        *((error("too late"), "no answer in 30 s") for error in TIMEOUT_ERRORS),
        (
            UnicodeError(
                "encoding with 'idna' codec failed (UnicodeError: label empty or too long)"
            ),
            "unknown host",
        ),
    ],
)
def test_network_error_has_a_short_cause(error: Exception, cause: str) -> None:
    """An exception of a known library is a network error, without credentials in its cause."""
    assert access_after(error, 30) == Unreachable(None, cause, hopeless=cause == "unknown host")


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        (
            foreign("scrapy.core", "TunnelError")("with proxy a:502 [{'status': 407}]"),
            "407 to CONNECT",
        ),
        *(
            (foreign(name, "ProxyError", foreign(name, "TransportError"))(text), cause)
            for name in HTTPX
            for text, cause in (
                ("503 Busy", "503 to CONNECT"),
                ("No", "no answer to CONNECT: No"),
            )
        ),
    ],
)
def test_refusal_of_a_proxy_is_the_fault_of_its_route(error: Exception, cause: str) -> None:
    """An exception for a refused CONNECT is recognised by its name, and its status is found."""
    assert access_after(error, 30) == Unreachable(None, cause, hopeless=True, spares_site=True)


@pytest.mark.parametrize(
    ("status", "kind"), [(401, Local), (451, Local), (520, Unreachable), (521, Unreachable)]
)
def test_refusal_of_zyte_api_is_not_the_site_s(status: int, kind: type) -> None:
    """An error of Zyte API counts as the site's failure only if the API could not fetch."""
    error: Any = foreign("zyte_api", "RequestError", foreign("aiohttp", "ClientError"))()
    error.status = status
    found = access_after(error, 30)
    assert isinstance(found, kind)
    if isinstance(found, Local):
        assert found.advice == "check the account and the request with the service"


@pytest.mark.parametrize(
    "text",
    [
        "BrowserType.launch: Failed to launch chromium",
        "Target page, context or browser has been closed",
        "Page crashed",
    ],
)
def test_browser_that_fails_is_local(text: str) -> None:
    """A browser that cannot be started, or has ended, is a failure of the crawl itself."""
    assert isinstance(access_after(foreign("playwright", "Error")(text), 30), Local)


@pytest.mark.parametrize(
    ("number", "cause"),
    [
        (errno.EMFILE, "no file descriptor is left"),
        (errno.ENFILE, "no file descriptor is left"),
        (errno.ENOBUFS, "no memory is left"),
        (errno.ENOMEM, "no memory is left"),
    ],
)
def test_shortage_of_the_machine_is_not_the_site_s_fault(number: int, cause: str) -> None:
    """A lack of descriptors or memory is recognised inside the exceptions of each handler."""
    for error in (
        OSError(number, "None left"),
        ConnectBindError(number, "None left"),  # type: ignore[no-untyped-call]  # Twisted's
        caused(foreign("aiohttp", "ClientError")("x"), OSError(number, "x")),
        DNSLookupError(f"address '{'a' * 200}' not found: [Errno {number}] None left"),
    ):
        found = access_after(error, 30)
        assert isinstance(found, Local)
        assert (found.cause, found.shortage) == (cause, True)
        assert "CONCURRENT_REQUESTS" in found.advice


@pytest.mark.parametrize("error", [MemoryError(), RuntimeError("can't start new thread")])
def test_lack_of_memory_or_threads_is_a_shortage(error: Exception) -> None:
    """An exception of Python itself may say that memory is short."""
    found = access_after(error, 30)
    assert isinstance(found, Local)
    assert found.shortage


def test_local_address_that_cannot_be_used_is_not_a_shortage() -> None:
    """A wrong `bindaddress` is not a shortage, although it has the error number of one."""
    found = access_after(OSError(errno.EADDRNOTAVAIL, "Cannot assign requested address"), 30)
    assert isinstance(found, Local)
    assert (found.cause, found.shortage) == ("no usable local address", False)


def test_lack_of_ports_is_a_shortage() -> None:
    """If no port can be bound, the machine is short of ports."""
    # Coverage.py cannot write its data without file descriptors.
    environment = {key: value for key, value in os.environ.items() if "COVERAGE" not in key}
    command = [sys.executable, "-c", NO_PORTS]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (run.stdout, run.stderr) == ("no local port is left True\n", "")


#: Sockets cannot be made in a process without descriptors, whose ports are out of reach then, too.
NO_PORTS = """
import errno, os, resource
from scrapy_robots_rfc.fetching.faults import access_after

resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))
try:
    while True:
        os.dup(0)
except OSError:
    found = access_after(OSError(errno.EADDRNOTAVAIL, "x"), 30)
print(found.cause, found.shortage)
"""


class MuteError(Exception):
    """An exception whose text cannot be read."""

    def __str__(self) -> str:
        raise ValueError("nothing to say")


@pytest.mark.parametrize(
    "error",
    [KeyError("x"), MuteError(), foreign("unknown", "Mistake")("x"), FileNotFoundError(2, "x")],
)
def test_unknown_exception_is_local(error: Exception) -> None:
    """An unknown exception is a failure of the crawl itself."""
    assert isinstance(access_after(error, 30), Local)
    error.__cause__ = error  # a chain without an end
    assert isinstance(access_after(error, 30), Local)
