"""Decides by rules whether chunks support a claim, and estimates a probability of support."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from importlib.resources import files
from operator import mul
from typing import Final, NamedTuple

from rag_eval_hooks.findings import ClaimVerdict, Support
from rag_eval_hooks.judges.calibration import sigmoid
from rag_eval_hooks.judges.heuristic.alignment import Alignment, align, anchors, is_year, resembles
from rag_eval_hooks.judges.heuristic.chunks import (
    PLACEHOLDER,
    VALUE,
    Chunks,
    Closest,
    Sentence,
    SplitText,
    closest,
    starts,
)
from rag_eval_hooks.text.folding import is_content, word_set
from rag_eval_hooks.text.measures import Measure, agree

FEATURES: Final = (
    "coverage", "pairs", "lacks_terms", "lacks_pairs", "lacks_values", "lacks_names", "length",
    "stated",
)  # fmt: skip
_MODEL: Final = json.loads(
    files("rag_eval_hooks.judges.heuristic").joinpath("weights", "support.json").read_text("utf-8")
)
_FEWEST: Final = 2  # minimum number of content words of a claim
_LONG: Final = 7  # content words of a long claim; in a shorter claim, one word changes too much
_SURE, _COVERED = 0.85, 0.4  # minimum probability and coverage of a long claim that is supported
_MOST_COMPARED: Final = 400  # maximum number of sentences to align with one claim
_MOST_SAID, _MOST_STATED = 20, 500  # maximum number of quantities of a claim, and of all chunks
_REFUTED: Final = 0.1  # maximum probability of a contradicted claim
_SMALL: Final = 12  # a value up to this number may count list items
_PARTS: Final = word_set(
    "half quarter third halb halbe halben halbes halfte viertel drittel moitie demi tiers quart "
    "mitad medio media tercio cuarto"
)
_SCALES: Final = frozenset(("fahrenheit", "celsius", "kelvin"))


class ClaimReading(NamedTuple):
    claim: Sentence
    support: Support
    features: Sequence[float]
    closest: Sequence[Closest]


def read(claim: Sentence, chunks: Chunks, question: frozenset[str]) -> ClaimReading:
    near = [closest(claim.terms, passage) for passage in chunks]
    lacking = _Lacking.of(claim, chunks, question)
    support = _ruling(claim, chunks, lacking)
    found = _features(claim, chunks, lacking, near, support.verdict)
    odds = _MODEL["base"] + math.fsum(map(mul, _MODEL["weights"], found)) if claim.terms else 0.0
    probability = sigmoid(odds)
    if not support.sure and probability >= _SURE and len(claim.chain) >= _LONG:
        support = _resembling(claim, chunks, near) or support
    elif support.verdict is ClaimVerdict.CONTRADICTED:
        probability = min(probability, _REFUTED)
    return ClaimReading(claim, replace(support, probability=probability), found, near)


class _Lacking(NamedTuple):
    differing: Sequence[Measure]  # quantities that are in the claim but in no chunk
    values: Sequence[Measure]  # numbers that are neither in the question nor in a chunk
    names: Sequence[str]
    terms: int

    @classmethod
    def of(cls, claim: Sentence, chunks: Chunks, question: frozenset[str]) -> _Lacking:
        stated = chunks.measures if len(chunks.measures) <= _MOST_STATED else None
        said = claim.measures[:_MOST_SAID] if stated is not None else ()
        differing = [value for value in said if not any(agree(value, one) for one in stated or ())]
        numbers = {one.number for one in stated or ()}
        names = [
            phrase
            for phrase, parts in claim.names.items()
            if not parts <= question | _SCALES
            and not any(_has_name(chunk, phrase, parts) for chunk in chunks)
        ]
        new = claim.terms - question
        return cls(
            differing,
            [v for v in differing if v.number not in numbers and f"{v.number:g}" not in question],
            names,
            sum(not any(chunk.has_form(term) for chunk in chunks) for term in new),
        )


def _has_name(chunk: SplitText, phrase: str, parts: frozenset[str]) -> bool:
    if PLACEHOLDER.fullmatch(phrase) or ("@" in phrase and "://" not in phrase):
        # Different addresses or placeholders may share words, so compare the whole phrase.
        return phrase.casefold() in chunk.casefolded
    return any(map(chunk.has_form, parts))


def _ruling(claim: Sentence, chunks: Chunks, lacking: _Lacking) -> Support:
    code, verdict, quote = _language(claim, chunks), ClaimVerdict.UNSURE, ""
    reason = "no sentence states the claim in similar words, and no value or name refutes the claim"
    if code is None:
        reason = "the claim and the chunks are in different languages"
    elif sum(isinstance(one, Measure) or is_content(one) for one in claim.items(code)) < _FEWEST:
        reason = "the claim contains fewer than two content words"
    else:
        aligned = _aligned(claim, chunks, code)
        stating = {at: one.text for at, one, found in reversed(aligned) if found == ([], False)}
        if stating:
            return _supported(stating, len(chunks))
        refuting = ((why, one.text) for _, one, x in aligned if (why := _refutation(x, lacking)))
        if refutation := next(refuting, None):
            verdict, (reason, quote) = ClaimVerdict.CONTRADICTED, refutation
        elif missing := _missing(chunks, lacking):
            verdict, reason = ClaimVerdict.NOT_STATED, missing
    return Support((False,) * len(chunks), reason=reason, verdict=verdict, quote=quote)


def _aligned(
    claim: Sentence, chunks: Chunks, code: str
) -> Sequence[tuple[int, Sentence, Alignment]]:
    wanted = anchors(claim, code)
    places = ((at, one) for at, chunk in enumerate(chunks) for one in chunk.sentences)
    needed, has_value = starts(wanted), VALUE in wanted
    # First skip most sentences by quick checks, because `kinds` is slow.
    every = [
        (at, one)
        for at, one in places
        if (one.measures or not has_value)
        and all(start in one.joined for start in needed)
        and wanted <= one.kinds(code)
    ]
    pairs = every if len(every) <= _MOST_COMPARED else ()
    return [(at, one, found) for at, one in pairs if (found := align(claim, one, code)) is not None]


def _refutation(found: Alignment, lacking: _Lacking) -> str:
    if found.denied and not found.others:
        return "either the claim or the chunk has a negation, but not both"
    said, stated = found.others[0]
    if found.denied or len(found.others) > 1 or said not in lacking.differing:
        return ""
    return f"the claim says {said.text!r} where a chunk says {stated.text!r}"


def _supported(stating: dict[int, str], chunks: int, how: str = "") -> Support:
    at = min(stating)
    flags = tuple(number in stating for number in range(chunks))
    return Support(
        flags, reason=f"chunk {at + 1} states the claim{how}: {stating[at]}", quote=stating[at]
    )


def _resembling(claim: Sentence, chunks: Chunks, near: Sequence[Closest]) -> Support | None:
    code = _language(claim, chunks) or ""
    stating = {
        at: one.sentence.text
        for at, one in enumerate(near)
        if one.sentence and one.score >= _COVERED and resembles(claim, one.sentence, code)
    }
    return _supported(stating, len(chunks), " nearly word for word") if stating else None


def _language(claim: Sentence, chunks: Chunks) -> str | None:
    theirs = sorted({passage.language for passage in chunks if passage.language})
    if not theirs:
        return claim.language or ("en" if claim.text.isascii() else "")
    own = claim.language or theirs[0]
    return own if own in theirs else None


def _missing(chunks: Chunks, lacking: _Lacking) -> str:
    has_parts = any(not _PARTS.isdisjoint(chunk.words) for chunk in chunks)  # as in "half an hour"
    for said in () if has_parts else lacking.values:
        # A claim may be the sum of two or more values, but a year is rarely a sum.
        near = sum(one.unit in (said.unit, "") for one in chunks.measures)
        if said.number > _SMALL and not said.bound and (near <= 1 or is_year(said)):
            return f"the number {said.text} is in no chunk"
    for phrase in lacking.names:
        if PLACEHOLDER.fullmatch(phrase) or not phrase.isupper():
            return f"the name {phrase!r} is in no chunk"
    return ""


def _features(
    claim: Sentence,
    chunks: Chunks,
    lacking: _Lacking,
    near: Sequence[Closest],
    verdict: ClaimVerdict,
) -> list[float]:
    at = max(range(len(near)), key=lambda i: near[i].score)
    stated = verdict is ClaimVerdict.SUPPORTED
    return [
        near[at].score,
        len(claim.pairs & chunks[at].pairs) / (len(claim.pairs) or 1),
        float(min(lacking.terms, 5)),
        float(min(len(claim.pairs - chunks.pairs), 20)),
        float(min(len(lacking.values), 3)),
        float(min(len(lacking.names), 3)),
        math.log1p(len(claim.chain)),
        float(stated) - float(verdict is ClaimVerdict.CONTRADICTED),
    ]
