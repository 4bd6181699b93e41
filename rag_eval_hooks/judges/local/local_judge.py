"""Judge that needs nothing but the package itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from rag_eval_hooks.findings import Finding, Findings, Stance
from rag_eval_hooks.judges.base import Embedder
from rag_eval_hooks.judges.local.claims import claims
from rag_eval_hooks.judges.local.ratings import RATE, indistinct, rated
from rag_eval_hooks.judges.local.verdicts import VERIFY, Verification
from rag_eval_hooks.judges.local.windows import RULES, Rules, Vectors
from rag_eval_hooks.score import AnnotatorKind, Cause, NotScored
from rag_eval_hooks.tasks import Decompose, Grade, Rate, Verify
from rag_eval_hooks.text.key_terms import entities

__all__ = ["LocalJudge"]

_NO_QUESTIONS = NotScored(Cause.MISSING_INPUT, "the embedded judge generates no questions")
_NO_RUBRIC = NotScored(Cause.MISSING_INPUT, "the embedded judge rates by no rubric")


def _stance(task: Decompose) -> Stance:
    given = ((task.answer, True), (task.reference, False))
    return Stance(*(absent if text is None else indistinct(text) for text, absent in given))


_DECOMPOSE: Mapping[Finding, Callable[[Decompose], Any]] = {
    Finding.ANSWER_CLAIMS: lambda task: claims(task.answer or ""),
    Finding.REFERENCE_CLAIMS: lambda task: claims(task.reference or ""),
    Finding.ENTITIES: lambda task: tuple(entities(task.reference or "")),
    Finding.STANCE: _stance,
}


class LocalJudge:
    """Findings by rules over words, numbers, names and negation; deterministic.

    It sees no synonyms or antonyms without an embedder, no swapped roles ("A beat B") and
    resolves no pronouns. Agreement with human labels, by `python benchmarks/embedded_judge.py`
    (constants were chosen on other rows of RAGTruth and never on HaluEval; those for relevance
    and agreement on the rows reported):

    - Faithfulness, RAGTruth QA (1000 answers): AUROC 0.676, balanced accuracy 0.656 at a
      threshold from other folds. HaluEval QA (394, unseen): AUROC 0.794, and 0.876 over pairs
      whose lengths differ by at most one word.
    - Of 1436 supported claims with a "not" put in (other rows of RAGTruth, on which the negation
      rules were chosen), 0.739 are refused. Of 14240 claims there that people found right, the
      negation rules alone turn down 75.
    - Useful chunks: HotpotQA (500 chunks) AUROC 0.802 and F1 0.571 by the question, 0.900 and
      0.676 with the reference; CLAP-NQ (306) AUROC 0.751, F1 0.694 by the question.
    - Correct or wrong by the reference, EVOUNA (2500): accuracy 0.899, balanced 0.919.
    - Direct relevance to an answer's own question or to that of another row, EVOUNA: AUROC 0.915.
    - Indistinct or not, answers around refusal phrases (239, known when the rules were written):
      accuracy 0.987, balanced 0.972.

    With all-MiniLM-L6-v2, on the first 300 rows a file (`--limit 300 --embeddings PATH`, without
    it in brackets): RAGTruth AUROC 0.718 (0.749), HaluEval 0.813 (0.823). On the 300 rows of
    RAGTruth where its constants were chosen it raised the AUROC from 0.707 to 0.734. So for
    faithfulness no gain over words alone is proven; for useful chunks the AUROC rises to 0.821
    (0.802), 0.913 (0.900) with the reference, and 0.808 (0.784) on CLAP-NQ; for direct relevance
    to 0.953 (0.944), and the accuracy of correct or wrong to 0.883 (0.880).

    Args:
        embedder: Adds the cosine of sentences to support, agreement and relevance of all kinds.
        rules: Constants; the defaults were chosen on labelled data.
    """

    version = "local.3"
    makes: Final = frozenset({*_DECOMPOSE, *VERIFY, *RATE})
    """Findings that it makes; all others are absent as `missing_input`."""
    annotator_kind = AnnotatorKind.CODE

    def __init__(self, embedder: Embedder | None = None, rules: Rules = RULES) -> None:
        self._embedder = embedder
        self.rules = rules

    @property
    def name(self) -> str:
        """`local`, or `local+<embedder>`."""
        return f"local+{self._embedder.name}" if self._embedder else "local"

    async def decompose(self, task: Decompose) -> Findings:
        """Return claims, entities and stance by rules; questions are never made."""
        made: dict[str, Any] = {
            kind.value: _DECOMPOSE[kind](task) if kind in _DECOMPOSE else _NO_QUESTIONS
            for kind in task.wanted
        }
        return Findings(**made)

    async def verify(self, task: Verify) -> Findings:
        """Return verdicts by rules.

        Raises:
            JudgeError: The embedder failed.
        """
        verification = Verification(task, self.rules)
        if self._embedder:
            texts = verification.texts()
            verification.vectors = await Vectors.of(self._embedder, texts)
        made: dict[str, Any] = {}
        for kind in sorted(task.wanted):
            made[kind.value] = await VERIFY[kind](verification)
        return Findings(**made)

    async def rate(self, task: Rate) -> Findings:
        """Return classification and direct relevance by rules; nothing by a rubric.

        Raises:
            JudgeError: The embedder failed.
        """
        return Findings(**await rated(task, self._embedder, self.rules))

    async def grade(self, task: Grade) -> Findings:
        """Return no grade: all are by rubrics."""
        return Findings.absent(task.wanted, _NO_RUBRIC)

    async def aclose(self) -> None:
        """Close the embedder."""
        if self._embedder:
            await self._embedder.aclose()
