"""The metric `rag.citation_support`: share of cited claims that the cited passages support.

This package defines the metric. A citation is a number in square brackets, or a number after a word
such as "source". Examples: `[2]`, `[1, 3]`, `(source 2)`, `according to document 2`. The number
is a chunk's position in the prompt, from 1. A citation belongs to the sentence that contains it. A
citation between two sentences belongs to the first sentence.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from typing import Final

from rag_eval_hooks.findings import Finding, Findings, Support
from rag_eval_hooks.metrics.formulas import claim_rows, claims_of, sure_ones
from rag_eval_hooks.metrics.metric import Metric
from rag_eval_hooks.sample import Field, Sample
from rag_eval_hooks.score import UNIT, Cause, NotScored, Outcome
from rag_eval_hooks.text.folding import fold
from rag_eval_hooks.text.sentences import sentences

_WORD: Final = r"(?:sources?|passages?|documents?|docs?|chunks?|contexts?)[ :#]{1,3}"
_NUMBERS: Final = r"(\d{1,3}(?: ?[,;-] ?\d{1,3}){0,20})"
_BRACKETS: Final = rf"[\[【]\^?(?:{_WORD})?{_NUMBERS}[\]】]"
_CITATION: Final = re.compile(rf"{_BRACKETS}|\b{_WORD}{_NUMBERS}\b", re.IGNORECASE)
_LEADING: Final = re.compile(rf"(?:\s{{0,3}}(?:{_BRACKETS}|\({_WORD}{_NUMBERS}\)))+", re.IGNORECASE)
_MOST_CITED: Final = 1000


def _citation_support(sample: Sample, findings: Findings) -> Outcome:
    claims, support = claims_of(findings, "answer")
    cited = _cited_by(claims, sample.answer or "")
    known = [at for at, numbers in enumerate(cited) if numbers]
    if not known:
        return NotScored(Cause.UNDEFINED, "the answer cites no passage")
    chosen = [support[at] for at in known]
    rows = claim_rows([claims[at] for at in known], chosen)
    flags = [_is_supported(support[at], cited[at]) for at in known]
    explanation = {
        "claims": [
            {**row, "cited": sorted(cited[at]), "supported": flag}
            for row, at, flag in zip(rows, known, flags, strict=True)
        ]
    }
    sure, warnings = sure_ones(chosen, explanation)
    return UNIT.score(flags.count(True) / len(sure), explanation=explanation, warnings=warnings)


def _is_supported(support: Support, cited: frozenset[int]) -> bool | None:
    if not support.sure:
        return None
    if support.together:
        return len(cited) > 1
    return any(flag and number in cited for number, flag in enumerate(support.by_chunk, start=1))


def _cited_by(claims: Sequence[str], answer: str) -> list[frozenset[int]]:
    cited = _sentences_with_citations(answer)
    if not any(numbers for _, numbers in cited):
        return [frozenset()] * len(claims)
    pairs = [(_pairs(sentence), numbers) for sentence, numbers in cited]
    return [max(pairs, key=partial(_likeness, _pairs(claim)))[1] for claim in claims]


def _likeness(claim: frozenset[str], cited: tuple[frozenset[str], frozenset[int]]) -> float:
    return len(claim & cited[0]) / (len(claim) + len(cited[0]) or 1)


def _sentences_with_citations(answer: str) -> list[tuple[str, frozenset[int]]]:
    found: list[tuple[str, frozenset[int]]] = []
    for piece in sentences(answer):
        rest = piece
        # `sentences` puts a citation after a full stop at the start of the next sentence.
        if found and (leading := _LEADING.match(piece)) is not None:
            sentence, before = found[-1]
            found[-1] = sentence, before | _numbers(leading[0])
            rest = piece[leading.end() :]
        if rest.strip():
            found.append((_CITATION.sub("", rest), _numbers(rest)))
    return found


def _numbers(text: str) -> frozenset[int]:
    numbers: set[int] = set()
    for match in _CITATION.finditer(text):
        for part in re.split(r"[,;]", match[1] or match[2]):
            first, _, last = part.partition("-")
            numbers.update(range(int(first), min(int(last or first), _MOST_CITED) + 1))
    return frozenset(numbers)


def _pairs(text: str) -> frozenset[str]:
    letters = "".join(char for char in fold(text) if char.isalnum())
    return frozenset(map("".join, pairwise(letters)))


CITATION_SUPPORT: Final = Metric(
    id="rag.citation_support",
    score=_citation_support,
    needs=frozenset({Field.CONTEXTS, Field.ANSWER}),
    findings=frozenset({Finding.ANSWER_CLAIMS, Finding.ANSWER_SUPPORT}),
    summary="Share of the cited claims that a cited passage supports.",
    source="rag-eval-hooks",
)
