"""The labels of use that a crawl may declare: a table, as drafts may still change these words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType

#: Labels that a crawl may name without a warning -> other words for them, in any source. Other
#: labels are read as well.
LABELS: Mapping[str, tuple[str, ...]] = MappingProxyType({
    "train-ai": ("ai-train",),  # draft-ietf-aipref-vocab-08
    "search": (),  # draft-ietf-aipref-vocab-08
    "ai-input": (),  # Content Signals (Cloudflare, 2025-09-24)
    "tdm": (),  # TDMRep (W3C Community Group report, 2024-05-10)
})  # fmt: skip
#: The spider attribute that says what a crawl is for.
USE_ATTRIBUTE = "robots_use"
#: The request meta key that says what a request is for. It is not `robots_use`, which responses
#: have in their meta: a request that is made with the meta of a response would declare what that
#: response permits.
DECLARED_KEY = "robots_declared_use"
TRAIN_AI, TDM = "train-ai", "tdm"
#: Synonym -> label.
LABEL_OF = {synonym: label for label, synonyms in LABELS.items() for synonym in synonyms}


def uses_of(value: object) -> tuple[str, ...] | None:
    """Return the labels that a user's value names, in lower case and without synonyms.

    :param value: a list of labels, or a string with commas; ``None`` gives ``None``.
    :raises TypeError: it is something else.
    """
    labels = value.split(",") if isinstance(value, str) else value
    if labels is None:
        return None
    kinds = (list, tuple, set, frozenset)
    if not isinstance(labels, kinds) or not all(isinstance(label, str) for label in labels):
        raise TypeError(value)
    named = (label.strip().lower() for label in labels if label.strip())
    return tuple(dict.fromkeys(LABEL_OF.get(label, label) for label in named))


def unknown_labels(uses: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield each label that no site is known to use, such as a typo, and the nearest known one."""
    for label in uses:
        if label not in LABELS:
            from difflib import get_close_matches  # noqa: PLC0415 - loaded for a wrong name only

            yield label, get_close_matches(label, LABELS, n=1, cutoff=0)[0]
