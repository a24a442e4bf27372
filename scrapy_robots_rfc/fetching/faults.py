"""Classify download exceptions by whose fault they are, and describe the cause.

Exceptions are recognised by package and class name, because most of these packages are optional.
Most of those that aren't in the tables are failures of the crawl itself, which aren't cached.
"""

import errno
import re
import socket
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from traceback import walk_tb

from scrapy_robots_rfc._runtime import TIMEOUT_ERRORS
from scrapy_robots_rfc._scrapy import READING
from scrapy_robots_rfc.core.text import message_of, shorten
from scrapy_robots_rfc.errors import BrokenTransferError, ComponentError, DecodingError
from scrapy_robots_rfc.policy.access import Local, Unreachable

#: Exceptions caused by the network or a server, by package, including subclasses.
_NETWORK = {
    "scrapy": (
        "CannotResolveHostError DownloadCancelledError DownloadConnectionRefusedError"
        " DownloadFailedError DownloadTimeoutError ResponseDataLossError TunnelError"
        " InactiveStreamClosed InvalidNegotiatedProtocol RemoteTerminatedConnection"  # of HTTP/2
    ),
    "twisted": (
        "ConnectBindError ConnectError ConnectionClosed DNSLookupError ParseError ResponseFailed"
        " RequestTransmissionFailed TimeoutError _WrapperException FTPError"
    ),
    "builtins": "ConnectionError TimeoutError",
    "asyncio": "IncompleteReadError LimitOverrunError",
    "socket": "gaierror herror",
    "ssl": "SSLError",
    "OpenSSL": "Error",
    "service_identity": "VerificationError",
    "aiohttp": "ClientError",
    "httpx": "TransportError",
    "httpx2": "TransportError",
    "httpcore": "NetworkError ProtocolError ProxyError TimeoutException",
    "h2": "H2Error",
    "curl_cffi": "CurlError RequestException",
    "requests": "RequestException",
    "urllib3": "HTTPError",
    "playwright": "Error",
    "zyte_api": "RequestError",
}

#: Operating system errors caused by the network.
_NETWORK_ERRNO = {errno.ENETUNREACH, errno.EHOSTUNREACH, errno.ENETDOWN, errno.EHOSTDOWN,
                  errno.ETIMEDOUT}  # fmt: skip

_NO_DESCRIPTOR = Local(
    "no file descriptor is left",
    "raise the limit of open files (ulimit -n), or lower CONCURRENT_REQUESTS",
    shortage=True,
)
_NO_PORT = Local(
    "no local port is left",
    "free ports, raise net.ipv4.ip_local_port_range, or lower CONCURRENT_REQUESTS",
    shortage=True,
)
_NO_MEMORY = Local(
    "no memory is left", "give the process more memory, or lower CONCURRENT_REQUESTS", shortage=True
)
_WRONG_ADDRESS = Local(
    "no usable local address",
    "check the meta `bindaddress` of the request, and whether the site has only IPv6 addresses that"
    " this machine cannot use",
)
#: The result if a request has not passed all middlewares before its timeout.
HELD = Local(
    "a middleware held the request until its timeout", "make it ignore requests for robots.txt"
)
#: The result if a request may have waited for a connection of a small pool until its timeout.
NO_CONNECTION = Local(
    "no connection was free", "raise CONCURRENT_REQUESTS, or ROBOTS_TIMEOUT", shortage=True
)
#: Operating system error caused by this machine -> result.
_RESULT_BY_ERRNO = {
    errno.EMFILE: _NO_DESCRIPTOR,
    errno.ENFILE: _NO_DESCRIPTOR,
    errno.ENOBUFS: _NO_MEMORY,
    errno.ENOMEM: _NO_MEMORY,
    errno.EADDRNOTAVAIL: _NO_PORT,
}
# The operating system error in the message of a DNSLookupError: `[Errno 24] Too many open files`.
_ERRNO_TEXT = re.compile(r"\[Errno (\d+)\]")
# If this many ports can be bound at once, the machine hasn't run out of ports.
_PORTS_TRIED = 20

#: Exceptions raised by Scrapy, aiohttp and httpx if a proxy refuses CONNECT.
_NO_TUNNEL = frozenset({"TunnelError", "ClientHttpProxyError", "ProxyError"})

#: The cause if a host name is not found. Retrying soon wouldn't help.
_UNKNOWN_HOST = "unknown host"
_BROKE_OFF = "the transfer was interrupted"
_NO_ANSWER = "connection closed without a response"
_NO_HTTP = "invalid HTTP response"  # followed by the exception's message

#: Class names of exceptions -> cause. The first row that matches any exception in the chain is
#: used.
_CAUSES = {
    "ResponseDataLossError _DataLoss ClientPayloadError IncompleteReadError": _BROKE_OFF,
    "CannotResolveHostError DNSLookupError ClientConnectorDNSError gaierror": _UNKNOWN_HOST,
    "ConnectionRefusedError": "connection refused",
    "ConnectionResetError ConnectionLost BrokenPipeError": "connection reset",
    "NoRouteError": "no route to host",
    "ServerDisconnectedError ConnectionDone": _NO_ANSWER,
    "ParseError BadStatusLine BadHttpMessage RemoteProtocolError": _NO_HTTP,
    # Must come last, because Scrapy also raises this for failures with a more precise row.
    "DownloadConnectionRefusedError": "connection refused",
}

#: Methods of downloader middlewares. An exception that one of them raises is not the site's fault.
_HOOKS = frozenset({"process_request", "process_response", "process_exception"})

#: Exception name -> advice for the user.
_ADVICE = {
    "RequestError": "check the account and the request with the service",
    "IgnoreRequest": "make the middleware that raised it ignore requests for robots.txt, or add the"
    " site to ROBOTS_EXEMPT",
    "UnsupportedURLSchemeError": "check DOWNLOAD_HANDLERS and the meta `proxy` of the request",
}
#: Advice about all other exceptions.
_FIX = "the traceback shows which component to fix, or to remove from the settings"

# Zyte API statuses that blame the site, as does an error without a status. Others are caused by the
# account or the service.
_SITE_FAILED = {520, 521}

# Found in Playwright's messages if the browser cannot be started or has exited.
_BROWSER_FAILED = ("BrowserType.", "has been closed", "crashed")

# Maximum number of exceptions to follow in a chain.
_MAX_CHAIN = 20

# A status in a proxy's answer to CONNECT: `HTTP/1.1 403 Forbidden`.
_STATUS = re.compile(r"\b[1-5]\d\d\b")


def access_after(error: Exception, timeout: float) -> Unreachable | Local:
    """Return the result of a download that raised an exception.

    :param timeout: ROBOTS_TIMEOUT, for the timeout message.
    """
    # Our own exceptions.
    if isinstance(error, BrokenTransferError | DecodingError):
        return Unreachable(None, str(error))
    if isinstance(error, ComponentError):
        return Local(message_of(error), error.advice)
    # A host name that cannot exist, for which aiohttp raises the error of Python's IDNA codec.
    if isinstance(error, UnicodeError) and "idna" in str(error):
        return Unreachable(None, _UNKNOWN_HOST, hopeless=True)
    chain = list(_chain(error))
    for member in chain:
        failure = _machine_failure(member)
        if failure is not None:
            return failure
    advice = next((_ADVICE[name] for name in _class_names(error) if name in _ADVICE), None)
    # A middleware is at fault itself, even if it raises a network error.
    if not _is_raised_in_hook(error):
        if _is_network(error):
            access = _network_failure(chain)
            if isinstance(error, TIMEOUT_ERRORS):
                access = access._replace(cause=f"no answer in {timeout:g} s")
            return access
        # An exception with advice that isn't a network failure is the crawl's fault.
        if advice is None and _is_raised_while_reading(error):
            return Unreachable(None, f"its response cannot be read: {_with_class(error)}")
    return Local(_with_class(error), advice or _FIX, error)


def _machine_failure(error: BaseException) -> Local | None:
    """Return the result if this machine lacks a resource or a usable address, or `None`."""
    no_thread = isinstance(error, RuntimeError) and "can't start new thread" in _text(error)
    if isinstance(error, MemoryError) or no_thread:
        return _NO_MEMORY
    # Twisted's exceptions aren't subclasses of OSError. They have `osError` instead of `errno`.
    code = getattr(error, "osError", getattr(error, "errno", None))
    if type(error).__name__ == "DNSLookupError":  # Twisted only puts the number in the message
        in_text = _ERRNO_TEXT.search(message_of(error))
        code = int(in_text[1]) if in_text else None
    result = _RESULT_BY_ERRNO.get(code) if isinstance(code, int) else None
    # A wrong bind address or missing IPv6 support has the same errno as running out of ports.
    return _WRONG_ADDRESS if result is _NO_PORT and _has_ports() else result


def _has_ports() -> bool:
    """Return whether local ports can still be bound."""
    with ExitStack() as stack, suppress(OSError):
        for _ in range(_PORTS_TRIED):
            stack.enter_context(socket.socket()).bind(("", 0))
        return True
    return False


def _network_failure(chain: list[BaseException]) -> Unreachable:
    """Return the result of a network error.

    Check for a refused proxy tunnel and a TLS failure first, because libraries wrap both in more
    general exceptions, for which `_CAUSES` would give a less precise cause.

    :param chain: the exception and its causes.
    """
    for error in chain:
        if type(error).__name__ in _NO_TUNNEL:
            # A proxy that doesn't accept CONNECT, or its credentials, usually refuses it again.
            return Unreachable(None, _answer_to_connect(error), hopeless=True, spares_site=True)
    for error in chain:
        tls = _tls_failure(error)
        if tls is not None:
            return Unreachable(None, f"TLS: {tls}")
    # The rows of `_CAUSES` are in order of precedence, so look for each of them in the whole chain.
    # Of errors with the same class, the innermost one has the most precise message.
    errors_by_class = {name: error for error in chain for name in _class_names(error)}
    for names, cause in _CAUSES.items():
        matching = [errors_by_class[name] for name in names.split() if name in errors_by_class]
        if matching and cause == _NO_HTTP:  # the exception's message says what is invalid
            return Unreachable(None, _not_http(matching[0]))
        if matching:
            return Unreachable(None, cause, hopeless=cause == _UNKNOWN_HOST)
    return Unreachable(None, _with_class(chain[0]))


def _not_http(error: BaseException) -> str:
    """Return the cause for a response that is not valid HTTP."""
    text = _text(error)
    if "disconnected" in text:  # httpx raises the same exception for closed connections
        return _NO_ANSWER
    return f"{_NO_HTTP}: {text}" if text else _NO_HTTP


def _answer_to_connect(error: BaseException) -> str:
    """Describe to the user how a proxy answered CONNECT."""
    text = _text(error)
    # Scrapy's message contains `host:port [{'status': 403, ...}]`. The port isn't the status.
    in_text = _STATUS.search(text.partition("[")[2] or text)
    status = getattr(error, "status", None)
    if not status and in_text:
        status = in_text[0]
    return f"{status} to CONNECT" if status else f"no answer to CONNECT: {text}"


def _tls_failure(error: BaseException) -> str | None:
    """Return a description of a TLS failure, or `None` for any other exception."""
    package = _package(type(error))
    if package == "ssl":  # the standard library, with a reason such as CERTIFICATE_VERIFY_FAILED
        text = getattr(error, "verify_message", None) or getattr(error, "reason", None)
        return str(text or _text(error)).replace("_", " ").lower()
    if package == "OpenSSL":  # used by Twisted
        details = error.args[0] if error.args else None
        if isinstance(details, list) and details:  # of (library, function, reason)
            return str(details[-1][-1])
        return _text(error) or "connection closed"  # the peer closed it without a reason
    return None


def _is_network(error: BaseException) -> bool:
    """Return whether an exception, or one that it was raised from, was caused by the network."""
    # zyte_api and playwright raise the same exception classes for a failure of the account, the
    # service or the browser as for one of the site.
    package = _package(type(error))
    status = getattr(error, "status", None)
    if package == "zyte_api" and not (status is None or status in _SITE_FAILED):
        return False
    if package == "playwright" and any(words in _text(error) for words in _BROWSER_FAILED):
        return False
    # Unlike `_chain`, don't follow `__context__`. A component that fails while it handles a network
    # error is at fault itself.
    member: BaseException | None = error
    for _ in range(_MAX_CHAIN):
        if member is None:
            return False
        if isinstance(member, OSError) and member.errno in _NETWORK_ERRNO:
            return True
        if any(_is_network_class(kind) for kind in type(member).__mro__):
            return True
        member = member.__cause__
    return False


def _is_network_class(kind: type) -> bool:
    """Return whether a class is in `_NETWORK`."""
    names = _NETWORK.get(_package(kind), "")
    return kind.__name__ in names.split()


def _package(kind: type) -> str:
    """Return the name of the top-level package that defines a class."""
    return kind.__module__.partition(".")[0]


def _class_names(error: BaseException) -> list[str]:
    """Return the names of an exception's class and its base classes."""
    return [kind.__name__ for kind in type(error).__mro__]


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yield an exception and its causes. Exception groups and Twisted may have several causes."""
    queue = [error]
    seen = set[int]()
    while queue and len(seen) < _MAX_CHAIN:
        member = queue.pop(0)
        if id(member) in seen:
            continue
        seen.add(id(member))
        yield member
        # httpcore re-raises its own exception `from None`, which keeps the context.
        causes = [member.__cause__ or member.__context__]
        # Twisted's ResponseFailed has a list of reasons. Each is a `Failure` with an exception.
        reasons = getattr(member, "reasons", None) or ()
        causes += [getattr(reason, "value", reason) for reason in reasons]
        causes += getattr(member, "exceptions", ())  # of an exception group
        queue += [cause for cause in causes if isinstance(cause, BaseException)]


def _text(error: BaseException) -> str:
    """Return an exception's message, shortened."""
    return shorten(message_of(error))


def _with_class(error: BaseException) -> str:
    """Return an exception's class name and message, or only the name if there is no message."""
    return f"{type(error).__name__}: {_text(error)}".removesuffix(": ")


def _is_raised_in_hook(error: Exception) -> bool:
    """Return whether an exception was raised in a method of a downloader middleware."""
    modules = [
        str(frame.f_globals.get("__name__"))
        for frame, _ in walk_tb(error.__traceback__)
        if frame.f_code.co_name in _HOOKS
    ]
    # In older versions of Scrapy, the core also contains functions with these names.
    return any(not module.startswith("scrapy.core.") for module in modules)


def _is_raised_while_reading(error: Exception) -> bool:
    """Return whether Scrapy was reading the site's response."""
    return any(frame.f_code.co_name == READING for frame, _ in walk_tb(error.__traceback__))
