"""The cases of `tests/cases/*.toml` that any parser can decide: one file, one agent, one URL.

`python -m bench.conformance` writes them to `docs/conformance.jsonl`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.support.case_files import cases

if TYPE_CHECKING:
    from tests.support.case_files import Case

#: What decides the verdict.
RFC = "rfc"
GOOGLE = "google"
OURS = "ours"

#: Sections of the RFC -> their rows in the table of docs/rfc9309.md.
SECTIONS = {
    "2.1": range(1, 3),
    "2.2": range(3, 8),
    "2.2.1": range(8, 13),
    "2.2.2": range(13, 22),
    "2.2.3": range(22, 24),
    "2.2.4": range(24, 26),
    "2.3.1.5": range(34, 35),
    "2.5": range(37, 38),
    "3": range(38, 39),
}

#: Rows that only permit something (MAY).
PERMISSIONS = {21, 24}

#: Decisions that follow from the RFC, against Google's parser or common practice.
OF_RFC = {"index-html", "record-in-group"}

#: Decisions that Google's parser makes, where the RFC says nothing.
OF_GOOGLE = {
    "leading-run",
    "line-limit",
    "missing-colon",
    "misspelt-keys",
    "no-leading-slash",
    "specificity",
    "star-and-more",
    "url-without-scheme",
}


@dataclass(frozen=True, slots=True)
class Question:
    """A case that any parser can decide.

    :param basis: what decides the verdict; a parser that differs is wrong only with `RFC`.
    :param agent: the crawler's product token, or in some cases a whole User-Agent header.
    """

    case: Case
    basis: str
    agent: str

    @property
    def sections(self) -> tuple[str, ...]:
        """The sections of the RFC that the case tests."""
        rows = [row for row in self.case.clauses if isinstance(row, int)]
        return tuple(name for name, those in SECTIONS.items() if any(row in those for row in rows))

    @property
    def url(self) -> str:
        """The URL of the page."""
        assert isinstance(self.case.url, str)
        return self.case.url

    @property
    def reason(self) -> str:
        """The decisions on which the verdict rests, or the sections of the RFC."""
        decisions = [name for name in self.case.clauses if isinstance(name, str)]
        return ", ".join(decisions or [f"RFC {section}" for section in self.sections])

    def line(self) -> str:
        """Return the case as a line of JSON."""
        case = self.case
        fields: dict[str, Any] = {
            "id": case.id,
            "basis": self.basis,
            "clause": self.sections,
            "decision": [name for name in case.clauses if isinstance(name, str)],
            "says": case.says,
        }
        if case.body_parts:
            fields["body_parts"] = case.body_parts
        else:
            fields["body"] = case.octets.decode("latin-1")
        fields["agent"] = self.agent
        if case.url_parts:
            fields["url_parts"] = case.url_parts
        else:
            fields["url"] = case.url
        fields["allowed"] = case.allowed
        return json.dumps(fields)


def basis_of(case: Case) -> str:
    """Return what decides a verdict: what the case says itself, or else its clauses."""
    names = {name for name in case.clauses if isinstance(name, str)} - OF_RFC
    rows = {row for row in case.clauses if isinstance(row, int)}
    if case.basis:
        return case.basis
    if names and names <= OF_GOOGLE:
        return GOOGLE
    if names or rows <= PERMISSIONS:
        return OURS
    return RFC


def questions() -> list[Question]:
    """Return the cases with one agent and a URL of text, in the order of the folder."""
    found = []
    for case in cases():
        agents = [case.asked] if isinstance(case.asked, str) else case.asked
        if len(agents) == 1 and isinstance(case.url, str):
            found.append(Question(case, basis_of(case), agents[0]))
    return found
