"""When an outage begins and ends, on a clock that the test sets."""

from __future__ import annotations

import logging

import pytest

from scrapy_robots_rfc.cache.client import CircuitBreaker

BEGINS, ENDS = "fails", "works again"


class Log:
    """Outages on a clock, and what is said of them."""

    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level(logging.INFO)
        self.now = 100.0
        self.outages = CircuitBreaker("a store", clock=lambda: self.now, count=lambda _: None)
        self._caplog = caplog

    @property
    def said(self) -> list[str]:
        """Beginnings and ends."""
        lines = [
            r.getMessage()
            for r in self._caplog.records
            if r.name == "scrapy_robots_rfc.cache.client"
        ]
        return [BEGINS if BEGINS in line else ENDS for line in lines]


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> Log:
    """A store that works."""
    return Log(caplog)


def test_all_calls_are_made_again_after_a_success(log: Log) -> None:
    """When the call that went ahead has worked, no other one waits any more."""
    log.outages.failed("get", OSError())
    log.now += 6
    assert log.outages.may_try("get")
    assert not log.outages.may_try("get")
    log.outages.worked("get", log.now)
    assert all(log.outages.may_try("get") for _ in range(3))


def test_a_success_from_before(log: Log) -> None:
    """A call that was made before another one failed, and worked, says nothing about what is
    now.
    """
    began = log.now
    log.now += 1
    log.outages.failed("get", OSError())
    log.now += 1
    log.outages.worked("get", began)
    assert not log.outages.may_try("get")
    assert log.said == [BEGINS]


def test_one_that_went_ahead_for_nothing(log: Log) -> None:
    """Where another kind of call fails while one goes ahead, its success says nothing, and one
    goes ahead later.
    """
    log.outages.failed("get", OSError())
    log.now += 6
    assert log.outages.may_try("get")
    began = log.now
    log.now += 1
    log.outages.failed("put", OSError())
    assert not log.outages.may_try("get")
    log.outages.worked("get", began)
    assert not log.outages.may_try("get")
    log.now += 10
    assert log.outages.may_try("get")
    assert not log.outages.may_try("get")
    log.outages.worked("get", log.now)
    log.outages.worked("put", log.now)
    assert log.said == [BEGINS, ENDS]


def test_all_that_failed_has_to_work(log: Log) -> None:
    """An outage is over when each kind of call that failed works again.

    That something else works is no reason to say so.
    """
    for call in ("put", "get"):
        log.outages.failed(call, OSError())
    log.now += 6
    for call in ("lease", "get"):
        log.outages.worked(call, log.now)
    assert log.said == [BEGINS]
    log.outages.worked("put", log.now)
    log.outages.failed("put", OSError())
    assert log.said == [BEGINS, ENDS, BEGINS]


def test_a_call_that_is_made_no_more(log: Log) -> None:
    """A kind of call that is not made for a minute is waited for no more."""
    log.outages.failed("take_turn", OSError())
    log.now += 50
    log.outages.worked("get", log.now)
    assert log.said == [BEGINS]
    log.now += 20
    log.outages.worked("get", log.now)
    assert log.said == [BEGINS, ENDS]
