"""The labels of use that a crawl may declare. A table, since the drafts may still change these words."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping


class Label(NamedTuple):
    """A label that is known; other labels are read as well.

    :param synonyms: other words for it, in any source.
    :param source: the draft, or the page of the vendor, that it is from.
    """

    synonyms: tuple[str, ...]
    source: str


#: Labels that a crawl may name without a warning.
LABELS: Mapping[str, Label] = MappingProxyType({
    "train-ai": Label(("ai-train",), "draft-ietf-aipref-vocab-08"),
    "search": Label((), "draft-ietf-aipref-vocab-08"),
    "ai-input": Label((), "Content Signals (Cloudflare, 2025-09-24)"),
    "tdm": Label((), "TDMRep (W3C Community Group report, 2024-05-10)"),
})  # fmt: skip
#: The name of the spider attribute and of the request meta key that say what a crawl, or a request, is for.
USE_KEY = "robotstxt_use"
TRAIN_AI, TDM = "train-ai", "tdm"
#: Synonym -> label.
LABEL_OF = {synonym: label for label, row in LABELS.items() for synonym in row.synonyms}


def uses_of(value: object) -> tuple[str, ...] | None:
    """Return the labels that a user's value names, in lower case and without synonyms; ``None`` for ``None``.

    :param value: a list of labels, or a string with commas.
    :raises TypeError: it is something else.
    """
    labels = value.split(",") if isinstance(value, str) else value
    if labels is None:
        return None
    if not isinstance(labels, (list, tuple, set, frozenset)) or not all(isinstance(label, str) for label in labels):
        raise TypeError(value)
    named = (label.strip().lower() for label in labels if label.strip())
    return tuple(dict.fromkeys(LABEL_OF.get(label, label) for label in named))
