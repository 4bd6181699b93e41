"""`HeuristicJudge`: an offline judge that checks claims by rules."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Final

from rag_eval_hooks.errors import ConfigError
from rag_eval_hooks.findings import ChunkRelevance, Finding, Findings, Stance, Support, Verdict
from rag_eval_hooks.judges.calibration import Calibration
from rag_eval_hooks.judges.heuristic.chunks import Chunks, Sentence, SplitText, terms
from rag_eval_hooks.judges.heuristic.entailment import Entailer, with_entailment
from rag_eval_hooks.judges.heuristic.reference import (
    agrees,
    claims,
    classification,
    direct_relevance,
    indistinct,
)
from rag_eval_hooks.judges.heuristic.support import read
from rag_eval_hooks.sample import Sample
from rag_eval_hooks.score import AnnotatorKind, Cause, NotScored
from rag_eval_hooks.text.folding import collapse_runs
from rag_eval_hooks.text.key_terms import entities

VERSION: Final = "heuristic.10"
_NOT_MADE: Final = NotScored(
    Cause.MISSING_INPUT,
    "the heuristic judge cannot generate questions or rate by rubrics; configure an LLM judge",
)
_SUPPORT: Final = {
    Finding.ANSWER_SUPPORT: "answer_claims",
    Finding.REFERENCE_SUPPORT: "reference_claims",
}
_MOST_ITEMS: Final = 300  # claims or entities; the judge compares each item with every chunk
_TOO_MANY: Final = NotScored(
    Cause.MISSING_INPUT, f"the text has more than {_MOST_ITEMS} claims or entities"
)
_NO_WORD: Final = NotScored(Cause.UNDEFINED, "the reference contains no letter or digit")
_USEFUL: Final = 0.15  # minimum relevance of a useful chunk
_PAUSE_EVERY: Final = 8  # claims between pauses; more would block the event loop too long


@lru_cache(maxsize=4)  # each round of a sample reads the same contexts
def _split(texts: tuple[str, ...]) -> Chunks:
    return Chunks(SplitText(collapse_runs(text)) for text in texts)


class _Case:
    def __init__(self, sample: Sample, known: Findings) -> None:
        self.question = collapse_runs(sample.question)
        self.answer = collapse_runs(sample.answer or "")
        self.reference = collapse_runs(sample.reference or "")
        self.asked = frozenset(terms(self.question))
        self._has_reference = sample.reference is not None
        self._texts = tuple([context.text for context in sample.contexts or ()])
        self._known = known

    @cached_property
    def chunks(self) -> Chunks:
        return _split(self._texts)

    def items(self, name: str) -> tuple[str, ...]:
        found = getattr(self._known, name)
        return () if isinstance(found, NotScored) else tuple(map(collapse_runs, found))

    def stance(self) -> Stance:
        return Stance(
            not self.answer or indistinct(self.answer),
            self._has_reference and indistinct(self.reference),
        )

    def relevance(self, target: str) -> tuple[ChunkRelevance, ...]:
        wanted, found = self.asked | {*terms(target)}, list[ChunkRelevance]()
        for score, chunk in zip(self.chunks.bm25(sorted(wanted)), self.chunks, strict=True):
            terms_found = ", ".join(sorted(wanted & chunk.index.keys()))
            reason = f"contains: {terms_found}" if terms_found else "contains no search term"
            rating = min(100.0 * score, 100.0)
            found.append(ChunkRelevance(score >= _USEFUL, rating, f"the chunk {reason}"))
        return tuple(found)

    def agreement(self, name: str, other: str) -> tuple[Verdict, ...]:
        text = SplitText(other)
        return tuple(agrees(Sentence(claim), text, self.asked) for claim in self.items(name))

    def entities_found(self) -> tuple[Verdict, ...]:
        found = []
        for entity in self.items("entities"):
            holding = (at for at, one in enumerate(self.chunks, 1) if one.holds_entity(entity))
            numbers = ", ".join(map(str, holding))
            where = f"the entity is in chunk {numbers}" if numbers else "the entity is in no chunk"
            found.append(Verdict(bool(numbers), where))
        return tuple(found)

    def classification(self) -> Verdict | NotScored:
        if not any(map(str.isalnum, self.reference)):
            return _NO_WORD
        if max(len(claims(self.answer)), len(claims(self.reference))) > _MOST_ITEMS:
            return _TOO_MANY
        return classification(self.question, self.answer, self.reference)


def _bounded(items: Sequence[str]) -> tuple[str, ...] | NotScored:
    return tuple(items) if len(items) <= _MOST_ITEMS else _TOO_MANY


_MADE: Final[Mapping[Finding, Callable[[_Case], Any]]] = {
    Finding.ANSWER_CLAIMS: lambda case: _bounded(claims(case.answer)),
    Finding.REFERENCE_CLAIMS: lambda case: _bounded(claims(case.reference)),
    Finding.ENTITIES: lambda case: _bounded(entities(case.reference)),
    Finding.STANCE: _Case.stance,
    Finding.ANSWER_AGREEMENT: lambda case: case.agreement("answer_claims", case.reference),
    Finding.REFERENCE_AGREEMENT: lambda case: case.agreement("reference_claims", case.answer),
    Finding.RELEVANCE: lambda case: case.relevance(case.reference),
    Finding.RELEVANCE_TO_ANSWER: lambda case: case.relevance(case.answer),
    Finding.ENTITIES_FOUND: _Case.entities_found,
    Finding.CLASSIFICATION: _Case.classification,
    Finding.DIRECT_RELEVANCE: lambda case: direct_relevance(case.question, case.answer),
}


class HeuristicJudge:
    """Judges by rules and a small logistic model, offline. Equal samples get equal findings.

    A claim is supported if one sentence states the claim in nearly the same words. A claim is
    contradicted or not stated if one of its values, names or negations differs from the contexts.
    The judge is unsure about all remaining claims.

    Without a calibration, each score has the flag `screening`: the score only suggests samples that
    a person should review.

    Args:
        entailer: A local model that also judges each English claim, unless the rules rejected it.
        calibration: A file that `rag-eval-hooks calibrate` wrote from your labels for this judge.

    Raises:
        ConfigError: The file is no calibration, or was made for a different judge or version.
    """

    makes: Final = frozenset({*_MADE, *_SUPPORT})
    """Findings that this judge makes. All other findings have the cause `missing_input`."""
    annotator_kind = AnnotatorKind.CODE

    def __init__(
        self, entailer: Entailer | None = None, calibration: str | Path | None = None
    ) -> None:
        self._entailer, self._calibration = entailer, None
        self.name = "heuristic" if entailer is None else f"heuristic+{entailer.name}"
        self.version = VERSION
        self.screening = calibration is None
        if calibration is not None:
            self._calibration = Calibration.read(Path(calibration))
            if self._calibration.judge != (judge := f"{self.name} {VERSION}"):
                wants = f"a calibration of {judge}, not of {self._calibration.judge}"
                raise ConfigError("calibration", str(calibration), wants)
            self.name += f" ({self._calibration.label})"
            self.version += f"+{self._calibration.label}"

    async def make(self, sample: Sample, wanted: frozenset[Finding], known: Findings) -> Findings:
        case = _Case(sample, known)
        made: dict[str, Any] = {kind.value: _NOT_MADE for kind in wanted - self.makes}
        for kind in sorted(wanted & _MADE.keys()):
            made[kind.value] = _MADE[kind](case)
            await asyncio.sleep(0)
        for kind in sorted(wanted & _SUPPORT.keys()):
            made[kind.value] = await self._supports(case, case.items(_SUPPORT[kind]))
        return Findings(**made)

    async def _supports(self, case: _Case, texts: Sequence[str]) -> tuple[Support, ...]:
        readings = []
        for at, text in enumerate(texts, 1):
            readings.append(read(Sentence(text), case.chunks, case.asked))
            if at % _PAUSE_EVERY == 0:
                await asyncio.sleep(0)
        found = [reading.support for reading in readings]
        if self._entailer is not None:
            found = await with_entailment(self._entailer, readings)
        return tuple(found if self._calibration is None else map(self._calibration.judged, found))

    async def warm_up(self) -> None:
        if self._entailer is not None:
            await self._entailer.warm_up()

    async def aclose(self) -> None:
        if self._entailer is not None:
            await self._entailer.aclose()
