"""The cases of `tests/cases/*.toml` with one file, one agent and one URL, for any parser.

`python -m bench.conformance` writes them to `docs/conformance.jsonl`.
"""

import json
from dataclasses import dataclass
from typing import Any

from tests.support.case_files import Case, cases

#: What decides the verdict of a case.
RFC = "rfc"
GOOGLE = "google"
OURS = "ours"

#: Section of the RFC -> its rows in the table of docs/rfc9309.md.
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
#: Rows with a MAY.
PERMISSIONS = {21, 24}
#: Decisions that follow from the RFC, although Google's parser or common practice differs.
OF_RFC = {"index-html", "record-in-group"}
#: Decisions that agree with Google's parser, where the RFC leaves room.
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

    :param agent: the crawler's product token, or in some cases a whole User-Agent header.
    """

    case: Case
    agent: str
    url: str

    @property
    def basis(self) -> str:
        """What decides the verdict. A parser that differs is wrong only if it is `RFC`."""
        if self.case.basis:
            return self.case.basis
        names = set(self.decisions) - OF_RFC
        if names and names <= OF_GOOGLE:
            return GOOGLE
        return OURS if names or self._rows <= PERMISSIONS else RFC

    @property
    def _rows(self) -> set[int]:
        """The rows of docs/rfc9309.md that the case tests."""
        return {row for row in self.case.clauses if isinstance(row, int)}

    @property
    def sections(self) -> tuple[str, ...]:
        """The sections of the RFC that the case tests."""
        return tuple(name for name, those in SECTIONS.items() if self._rows.intersection(those))

    @property
    def decisions(self) -> list[str]:
        """The decisions that the case tests."""
        return [name for name in self.case.clauses if isinstance(name, str)]

    @property
    def reason(self) -> str:
        """The decisions that lead to the verdict, or the sections of the RFC."""
        return ", ".join(self.decisions or [f"RFC {section}" for section in self.sections])

    def line(self) -> str:
        case = self.case
        body: dict[str, Any] = {"body": case.octets.decode("latin-1")}
        fields = {
            "id": case.id,
            "basis": self.basis,
            "clause": self.sections,
            "decision": self.decisions,
            "says": case.says,
            **({"body_parts": case.body_parts} if case.body_parts else body),
            "agent": self.agent,
            **({"url_parts": case.url_parts} if case.url_parts else {"url": self.url}),
            "allowed": case.allowed,
        }
        return json.dumps(fields)


def questions() -> list[Question]:
    """Return the cases with one agent and a URL that is text, in the order of the files."""
    asked = []
    for case in cases():
        agents = [case.asked] if isinstance(case.asked, str) else case.asked
        if len(agents) == 1 and isinstance(case.url, str):
            asked.append(Question(case, agents[0], case.url))
    return asked
