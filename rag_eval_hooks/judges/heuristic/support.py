"""Verdicts on claims by rules that speak only where they can be right, and a probability."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files
from itertools import islice
from operator import mul
from typing import Final, TypeAlias

from rag_eval_hooks.findings import ClaimVerdict, Support
from rag_eval_hooks.judges.heuristic.alignment import Alignment, align, anchors, resembles
from rag_eval_hooks.judges.heuristic.passages import Chunks, Passage, Window, best_window
from rag_eval_hooks.judges.heuristic.sentence import BREAKS, PLACEHOLDER, Claim, Sentence
from rag_eval_hooks.text.folding import is_content
from rag_eval_hooks.text.languages import function_word_counts
from rag_eval_hooks.text.measures import Measure, agree

__all__ = ["FEATURES", "Reading", "read"]

FEATURES: Final = (
    "coverage", "pairs", "lacks_terms", "lacks_pairs", "lacks_values", "lacks_names", "length",
    "stated",
)  # fmt: skip
"""What the probability of support is made of: shares in [0, 1], and counts of what is lacking."""
_MODEL: Final = json.loads(
    files("rag_eval_hooks.judges.heuristic").joinpath("weights", "support.json").read_text("utf-8")
)
_FEWEST: Final = 2  # content words of a claim that a sentence may state
_NAME_WEIGHT, _ASKED_WEIGHT = 1.5, 0.4  # of terms of names and values, and of the question's
_LONG: Final = 7  # content words; shorter claims differ by one word too easily
_SURE, _COVERED = 0.85, 0.4  # least probability and coverage of a long claim that is supported
_MOST_COMPARED: Final = 400  # sentences; more with the same word are no text
_MOST_SAID, _MOST_STATED = 20, 500  # quantities of a claim, and of all chunks
_REFUTED: Final = 0.1  # greatest probability of a contradicted claim
_ASIDE: Final = re.compile(r"[\[(<{\"'\u201c\u2018>][^\[\]()<>{}]{0,80}$")
_CONTROL: Final = re.compile(r"\s?(?:button|key|menu|tab|option|icon|field)\b|\s?>", re.IGNORECASE)
_UNITS: Final = frozenset(("fahrenheit", "celsius", "kelvin"))
_STATED, _OTHER, _MISSING, _OPEN = (
    ClaimVerdict.SUPPORTED, ClaimVerdict.CONTRADICTED, ClaimVerdict.NOT_STATED, ClaimVerdict.UNSURE,
)  # fmt: skip


_Aligned: TypeAlias = Sequence[tuple[int, Sentence, Alignment]]


@dataclass(frozen=True, slots=True)
class Reading:
    """A claim beside all chunks."""

    claim: Claim
    support: Support
    features: Sequence[float]
    windows: Sequence[Window]


@dataclass(frozen=True, slots=True)
class _Ruling:
    verdict: ClaimVerdict
    reason: str
    by_chunk: tuple[bool, ...] = ()
    quote: str = ""


def read(claim: Claim, chunks: Chunks, question: frozenset[str]) -> Reading:
    """Return the verdict on a claim by all chunks, and how likely they support it."""
    special = frozenset[str]().union(*claim.names.values())
    weight = {
        term: _ASKED_WEIGHT
        if term in question
        else (_NAME_WEIGHT if term in special or term[0].isdigit() else 1.0)
        for term in dict.fromkeys(claim.sentence.chain)
    }
    windows = [best_window(weight, passage) for passage in chunks]
    ruling = _ruling(claim, chunks, question, special)
    found = _features(claim, chunks, question, windows, ruling)
    probability = _probability(found) if weight else 0.5
    if ruling.verdict is _OPEN and probability >= _SURE and len(claim.sentence.chain) >= _LONG:
        ruling = _resembling(claim, chunks, windows, special) or ruling
    elif ruling.verdict is _OTHER:
        probability = min(probability, _REFUTED)
    support = Support(
        ruling.by_chunk or (False,) * len(chunks),
        reason=ruling.reason,
        verdict=ruling.verdict,
        quote=ruling.quote,
        probability=probability,
    )
    return Reading(claim, support, found, windows)


def _ruling(
    claim: Claim, chunks: Chunks, question: frozenset[str], names: frozenset[str]
) -> _Ruling:
    code = _language(claim.sentence, chunks)
    if code is None:
        return _Ruling(_OPEN, "the claim is in another language than the chunks")
    items = [item for item in claim.sentence.items(code) if item not in BREAKS]
    if sum(isinstance(item, Measure) or is_content(item) for item in items) < _FEWEST:
        return _Ruling(_OPEN, "the claim holds fewer than two content words")
    aligned = _aligned(claim.sentence, chunks, code, names)
    return (
        _stated(aligned, len(chunks))
        or _denied(aligned)
        or _other_value(aligned, chunks)
        or _missing(claim, chunks, question)
        or _Ruling(_OPEN, "no sentence states it in its words, and no value or name refutes it")
    )


def _aligned(claim: Sentence, chunks: Chunks, code: str, names: frozenset[str]) -> _Aligned:
    wanted = anchors(claim, code, names)
    compared = [
        (at, sentence)
        for at, passage in enumerate(chunks)
        for sentence in passage.holding(wanted, code)
    ]
    if len(compared) > _MOST_COMPARED:
        return []
    every = ((at, one, align(claim, one, code, names)) for at, one in compared)
    return [(at, one, found) for at, one, found in every if found is not None]


def _stated(aligned: _Aligned, chunks: int) -> _Ruling | None:
    stating = [(at, one.text) for at, one, found in aligned if not (found.others or found.denied)]
    if not stating:
        return None
    at, quote = stating[0]
    flags = tuple(number in dict(stating) for number in range(chunks))
    return _Ruling(_STATED, f"chunk {at + 1}: {quote}", flags, quote)


def _denied(aligned: _Aligned) -> _Ruling | None:
    for _, sentence, found in aligned:
        if found.denied and not found.others:
            reason = "the negation differs: the claim or the chunk denies what the other states"
            return _Ruling(_OTHER, reason, quote=sentence.text)
    return None


def _resembling(
    claim: Claim, chunks: Chunks, windows: Sequence[Window], names: frozenset[str]
) -> _Ruling | None:
    code = _language(claim.sentence, chunks)
    flags = tuple(
        bool(code)
        and window.score >= _COVERED
        and resembles(claim.sentence, window.sentences, code or "", names)
        for window in windows
    )
    if True not in flags:
        return None
    quote = windows[flags.index(True)].closest().text
    return _Ruling(
        _STATED, f"nearly word for word in chunk {flags.index(True) + 1}: {quote}", flags, quote
    )


def _language(claim: Sentence, chunks: Chunks) -> str | None:
    """Return the code of the language in which a claim is read; None if no chunk is in it."""
    theirs = sorted({passage.language for passage in chunks if passage.language})
    own = claim.language
    if not theirs:
        return own or ("en" if claim.text.isascii() else "")
    counts = function_word_counts(claim.words)
    best = max(theirs, key=lambda code: counts[code])
    return None if own and own != best and counts[own] >= 2 * max(counts[best], 1) else best


def _other_value(aligned: _Aligned, chunks: Chunks) -> _Ruling | None:
    """Return the ruling on a claim whose words a sentence has with another value, if it is one."""
    for _, sentence, found in aligned:
        if found.denied or len(found.others) != 1:
            continue
        said, stated = found.others[0]
        elsewhere = (other for one in chunks for other in one.sentences if other is not sentence)
        if not any(agree(said, one) for other in elsewhere for one in other.measures):
            reason = f"the claim says {said.text!r} where a chunk says {stated.text!r}"
            return _Ruling(_OTHER, reason, quote=sentence.text)
    return None


def _missing(claim: Claim, chunks: Chunks, question: frozenset[str]) -> _Ruling | None:
    """Return the ruling on a claim with a value or name that is in no chunk."""
    for said in _lacking_values(claim, chunks, question):
        if not chunks.derived.holds(said):
            return _Ruling(_MISSING, f"the number {said.text} is in no chunk")
    text = claim.sentence.text
    for phrase in _lacking_names(claim, chunks, question):
        before, _, after = text.partition(phrase)
        named = PLACEHOLDER.fullmatch(phrase) or not phrase.isupper()
        if named and not _ASIDE.search(before[-80:]) and not _CONTROL.match(after):
            return _Ruling(_MISSING, f"the name {phrase!r} is in no chunk")
    return None


def _lacking_values(claim: Claim, chunks: Chunks, question: frozenset[str]) -> Iterator[Measure]:
    """Yield the quantities of a claim that no chunk states, with their unit, any other or none."""
    if len(chunks.measures) > _MOST_STATED:
        return
    for said in claim.sentence.measures[:_MOST_SAID]:
        known = said.number in chunks.values or f"{said.number:g}" in question
        if not known and not any(agree(said, one) for one in chunks.measures):
            yield said


def _lacking_names(claim: Claim, chunks: Chunks, question: frozenset[str]) -> Sequence[str]:
    return [
        phrase
        for phrase, parts in claim.names.items()
        if not parts <= question | _UNITS
        and not any(_has_name(chunk, phrase, parts) for chunk in chunks)
    ]


def _has_name(chunk: Passage, phrase: str, parts: frozenset[str]) -> bool:
    if PLACEHOLDER.fullmatch(phrase) or ("@" in phrase and "://" not in phrase):
        # Addresses share words, such as the host's, and placeholders share their kind.
        whole = phrase.casefold()
        return whole in chunk.casefolded
    return any(map(chunk.has_form, parts))


def _features(
    claim: Claim,
    chunks: Chunks,
    question: frozenset[str],
    windows: Sequence[Window],
    ruling: _Ruling,
) -> list[float]:
    sentence = claim.sentence
    at = max(range(len(windows)), key=lambda i: windows[i].score)
    new = sentence.terms - question
    return [
        windows[at].score,
        len(sentence.pairs & chunks[at].pairs) / (len(sentence.pairs) or 1),
        float(min(sum(not any(c.has_form(term) for c in chunks) for term in new), 5)),
        float(min(len(sentence.pairs - chunks.pairs), 20)),
        float(len(list(islice(_lacking_values(claim, chunks, question), 3)))),
        float(min(len(_lacking_names(claim, chunks, question)), 3)),
        math.log1p(len(sentence.chain)),
        float(ruling.verdict is _STATED) - float(ruling.verdict is _OTHER),
    ]


def _probability(features: Sequence[float]) -> float:
    odds = _MODEL["base"] + math.fsum(map(mul, _MODEL["weights"], features))
    return 1.0 / (1.0 + math.exp(-odds))
