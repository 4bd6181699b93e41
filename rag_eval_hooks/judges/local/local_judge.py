"""Judge that needs nothing but the package itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, Final, TypeVar

from rag_eval_hooks.errors import ConfigError
from rag_eval_hooks.findings import Finding, Findings, Stance
from rag_eval_hooks.judges.base import Embedder
from rag_eval_hooks.judges.calibration import Calibration
from rag_eval_hooks.judges.local.claims import claims
from rag_eval_hooks.judges.local.entailer import Entailer
from rag_eval_hooks.judges.local.ratings import RATE, indistinct, rated
from rag_eval_hooks.judges.local.verdicts import VERIFY, Verification
from rag_eval_hooks.judges.local.windows import RULES, Vectors
from rag_eval_hooks.score import AnnotatorKind, Cause, NotScored
from rag_eval_hooks.tasks import Decompose, Grade, Rate, Task, Verify
from rag_eval_hooks.text.folding import collapse_runs
from rag_eval_hooks.text.key_terms import entities

__all__ = ["LocalJudge"]

_NO_QUESTIONS = NotScored(Cause.MISSING_INPUT, "the embedded judge generates no questions")
_NO_RUBRIC = NotScored(Cause.MISSING_INPUT, "the embedded judge rates by no rubric")


_AnyTask = TypeVar("_AnyTask", bound=Task)


def _collapsed(task: _AnyTask) -> _AnyTask:
    """Return a task whose texts have no long runs of one character."""
    texts: dict[str, Any] = {
        field.name: collapse_runs(value)
        if isinstance(value, str)
        else tuple(map(collapse_runs, value))
        for field in fields(task)
        if isinstance(value := getattr(task, field.name), str | tuple)
    }
    return replace(task, **texts)


def _stance(task: Decompose) -> Stance:
    given = ((task.answer, True), (task.reference, False))
    return Stance(*(absent if text is None else indistinct(text) for text, absent in given))


VERSION: Final = "local.6"
_SUPPORT: Final = frozenset({Finding.ANSWER_SUPPORT, Finding.REFERENCE_SUPPORT})
_DECOMPOSE: Mapping[Finding, Callable[[Decompose], Any]] = {
    Finding.ANSWER_CLAIMS: lambda task: claims(task.answer or ""),
    Finding.REFERENCE_CLAIMS: lambda task: claims(task.reference or ""),
    Finding.ENTITIES: lambda task: tuple(entities(task.reference or "")),
    Finding.STANCE: _stance,
}


class LocalJudge:
    """Findings by rules and trained weights over words, numbers, names and negation; deterministic.

    A claim is supported, contradicted, not stated, or the judge is unsure: it sees no paraphrase
    without shared words, no text in another language than the chunks, and not what a single other
    word in the same place means. Figures by data set, and what it cannot see, stand in
    docs/accuracy.md; its scores have the label `screening`.

    Args:
        embedder: Adds the cosine of sentences to agreement and relevance of all kinds, not to
            support: close in meaning is not stated.
        entailer: Judges the windows that words leave open, by a model on this machine.
        calibration: A file that `rag-eval-hooks calibrate` wrote from labels of your own for this
            judge: probabilities of support become calibrated ones, its cut decides in place of
            unsure, and scores are labelled `screening` no more.

    Raises:
        ConfigError: The file is no calibration, or one of another judge or version.
    """

    makes: Final = frozenset({*_DECOMPOSE, *VERIFY, *RATE})
    """Findings that it makes; all others are absent as `missing_input`."""
    annotator_kind = AnnotatorKind.CODE

    def __init__(
        self,
        embedder: Embedder | None = None,
        entailer: Entailer | None = None,
        calibration: str | Path | None = None,
    ) -> None:
        self._embedder = embedder
        self._entailer = entailer
        self.version = VERSION
        self._calibration = None if calibration is None else self._read(Path(calibration))
        if self._calibration is not None:
            self.version += f"+{self._calibration.fingerprint}"

    @property
    def label(self) -> str | None:
        """`screening`, unless the judge was calibrated: a word on its scores."""
        return "screening" if self._calibration is None else None

    @property
    def name(self) -> str:
        """`embedded`, with the names of embedder and entailment model behind plus signs."""
        models = (self._embedder, self._entailer)
        return "+".join(["embedded", *(model.name for model in models if model is not None)])

    async def decompose(self, task: Decompose) -> Findings:
        """Return claims, entities and stance by rules; questions are never made."""
        task = _collapsed(task)
        made: dict[str, Any] = {
            kind.value: _DECOMPOSE[kind](task) if kind in _DECOMPOSE else _NO_QUESTIONS
            for kind in task.wanted
        }
        return Findings(**made)

    async def verify(self, task: Verify) -> Findings:
        """Return verdicts by rules.

        Raises:
            JudgeError: The embedder or the entailment model failed.
        """
        verification = Verification(_collapsed(task), RULES)
        if self._entailer is not None:
            verification.entailment = self._entailer.judge
        if self._embedder:
            texts = verification.texts()
            verification.vectors = await Vectors.of(self._embedder, texts)
        made: dict[str, Any] = {}
        for kind in sorted(task.wanted):
            made[kind.value] = await VERIFY[kind](verification)
            if self._calibration is not None and kind in _SUPPORT:
                made[kind.value] = tuple(map(self._calibration.judged, made[kind.value]))
        return Findings(**made)

    async def rate(self, task: Rate) -> Findings:
        """Return classification and direct relevance by rules; nothing by a rubric.

        Raises:
            JudgeError: The embedder failed.
        """
        return Findings(**await rated(_collapsed(task), self._embedder, RULES))

    async def grade(self, task: Grade) -> Findings:
        """Return no grade: all are by rubrics."""
        return Findings.absent(task.wanted, _NO_RUBRIC)

    def _read(self, path: Path) -> Calibration:
        read = Calibration.read(path)
        made_for = f"{read.judge} {read.version}".strip()
        if made_for not in ("", f"{self.name} {VERSION}"):
            wants = f"a calibration of {self.name} {VERSION}, not of {made_for}"
            raise ConfigError("calibration", str(path), wants)
        return read

    async def aclose(self) -> None:
        """Close the models."""
        for model in (self._embedder, self._entailer):
            if model is not None:
                await model.aclose()
