"""Judge that needs nothing but the package itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from rag_eval_hooks.errors import ConfigError
from rag_eval_hooks.findings import Finding, Findings, Stance
from rag_eval_hooks.judges.base import Embedder
from rag_eval_hooks.judges.calibration import Calibration
from rag_eval_hooks.judges.local.claims import claims
from rag_eval_hooks.judges.local.entailer import Entailer
from rag_eval_hooks.judges.local.ratings import RATE, indistinct, rated
from rag_eval_hooks.judges.local.task import Task
from rag_eval_hooks.judges.local.verdicts import VERIFY, Verification
from rag_eval_hooks.judges.local.windows import RULES, Vectors
from rag_eval_hooks.sample import Sample
from rag_eval_hooks.score import AnnotatorKind, Cause, NotScored
from rag_eval_hooks.text.key_terms import entities

__all__ = ["LocalJudge"]

_NOT_MADE = NotScored(
    Cause.MISSING_INPUT, "the embedded judge generates no questions and rates by no rubric"
)


def _stance(task: Task) -> Stance:
    given = ((task.sample.answer, True), (task.sample.reference, False))
    return Stance(*(absent if text is None else indistinct(text) for text, absent in given))


VERSION: Final = "local.6"
_SUPPORT: Final = frozenset({Finding.ANSWER_SUPPORT, Finding.REFERENCE_SUPPORT})
_DECOMPOSE: Mapping[Finding, Callable[[Task], Any]] = {
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

    async def make(self, sample: Sample, wanted: frozenset[Finding], known: Findings) -> Findings:
        """Return findings by rules; generated questions and rubric ratings are never made.

        Raises:
            JudgeError: The embedder or the entailment model failed.
        """
        task = Task.of(sample, wanted, known)
        made: dict[str, Any] = dict.fromkeys(wanted - self.makes, _NOT_MADE)
        made |= {kind.value: _DECOMPOSE[kind](task) for kind in wanted & _DECOMPOSE.keys()}
        made |= await rated(task, self._embedder, RULES)
        if wanted & VERIFY.keys():
            made |= await self._verified(task)
        return Findings(**made)

    async def _verified(self, task: Task) -> dict[str, Any]:
        made: dict[str, Any] = {}
        verification = Verification(task, RULES)
        if self._entailer is not None:
            verification.entailment = self._entailer.judge
        if self._embedder:
            verification.vectors = await Vectors.of(self._embedder, verification.texts())
        for kind in sorted(task.wanted & VERIFY.keys()):
            made[kind.value] = await VERIFY[kind](verification)
            if self._calibration is not None and kind in _SUPPORT:
                made[kind.value] = tuple(map(self._calibration.judged, made[kind.value]))
        return made

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
