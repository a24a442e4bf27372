"""Public errors: each can be copied and pickled, as queues, process pools and test runners do."""

from __future__ import annotations

import copy
import inspect
import pickle
from functools import partial
from typing import TYPE_CHECKING

import pytest

from scrapy_robots_rfc import Decision, Reason, RobotsDisallowed, Rule, RuleKind, errors
from scrapy_robots_rfc.errors import MissingPackageError, RobotsError, SettingError

if TYPE_CHECKING:
    from collections.abc import Callable

DECISION = Decision(
    False, Reason.RULE, Rule(RuleKind.DISALLOW, "/caf\xe9", 3), "*", "https://e.example", stale=True
)


class Refused(RobotsDisallowed):
    """A user's own, with another signature and an attribute more."""

    def __init__(self, *, page: str) -> None:
        super().__init__(DECISION, "so it is")
        self.page = page


class WrongError(SettingError):
    """A user's own, that takes nothing at all."""

    def __init__(self) -> None:
        super().__init__("KEY", [1, {"a": 2}], "a number")
        self.hints = ["one", "two"]


ALL = [
    error
    for _, error in inspect.getmembers(errors, inspect.isclass)
    if issubclass(error, RobotsError)
]
WITH_MORE = [
    RobotsDisallowed(DECISION, "so it is"),
    SettingError("KEY", 5, "a number"),
    MissingPackageError("KEY", "x:", "package"),
    Refused(page="/x"),
    WrongError(),
]
WITH_TEXT = [error for error in ALL if error not in map(type, WITH_MORE)]
EXAMPLES = [*WITH_MORE, *(error("a text") for error in WITH_TEXT)]


def pickled(error: RobotsError, protocol: int) -> RobotsError:
    """The error as it comes back from a pickle."""
    again: RobotsError = pickle.loads(pickle.dumps(error, protocol))
    return again


WAYS: dict[str, Callable[[RobotsError], RobotsError]] = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    **{
        f"pickle {number}": partial(pickled, protocol=number)
        for number in range(pickle.HIGHEST_PROTOCOL + 1)
    },
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("error", EXAMPLES, ids=lambda error: type(error).__name__)
def test_copies(error: RobotsError, way: str) -> None:
    """A copy is of the same class, says the same, and has the same attributes, also those of a
    user's subclass.
    """
    error.add_note("seen on Monday")
    again = WAYS[way](error)
    assert again is not error
    assert type(again) is type(error)
    assert (str(again), again.args) == (str(error), error.args)
    assert vars(again) == vars(error)


def test_verdict_of_a_copy() -> None:
    """What an errback asks of RobotsDisallowed is there in a copy: the decision and why."""
    again = pickle.loads(pickle.dumps(Refused(page="/x")))
    assert (again.decision, again.why, again.page) == (DECISION, "so it is", "/x")
