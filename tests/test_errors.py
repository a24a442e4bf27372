"""Public errors can be copied and pickled, which queues, process pools and test runners do."""

from __future__ import annotations

import copy
import pickle
from typing import TYPE_CHECKING

import pytest

from scrapy_robots_rfc import Decision, Reason, RobotsDisallowed, Rule, RuleKind, errors
from scrapy_robots_rfc.errors import MissingPackageError, RobotsError, SettingError

if TYPE_CHECKING:
    from collections.abc import Callable

DECISION = Decision(
    False, Reason.RULE, Rule(RuleKind.DISALLOW, "/caf\xe9", 3), "*", "https://e.example", stale=True
)


class Subclass(RobotsDisallowed):
    """A third-party subclass with another signature and an attribute."""

    def __init__(self, *, page: str) -> None:
        super().__init__(DECISION, "the reason")
        self.page = page


class WithoutArgumentsError(SettingError):
    """A third-party subclass whose signature has no parameters."""

    def __init__(self) -> None:
        super().__init__("KEY", [1, {"a": 2}], "a number")
        self.hints = ["one", "two"]


EXAMPLES = [
    RobotsDisallowed(DECISION, "the reason"),
    SettingError("KEY", 5, "a number"),
    MissingPackageError("KEY", "x:", "package"),
    errors.RobotsUndecided("a text"),
    errors.StoreError("a text"),
    Subclass(page="/x"),
    WithoutArgumentsError(),
]


@pytest.mark.parametrize(
    "duplicate",
    [copy.copy, copy.deepcopy, lambda error: pickle.loads(pickle.dumps(error))],
    ids=["copy", "deepcopy", "pickle"],
)
@pytest.mark.parametrize("error", EXAMPLES, ids=lambda error: type(error).__name__)
def test_copies(error: RobotsError, duplicate: Callable[[RobotsError], RobotsError]) -> None:
    """A copy has the same class, message, arguments and attributes."""
    error.add_note("a note")
    again = duplicate(error)
    assert again is not error
    assert type(again) is type(error)
    assert (str(again), again.args) == (str(error), error.args)
    assert vars(again) == vars(error)
