"""Interfaces of judges, embedders and token scorers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from rag_eval_hooks.findings import Finding, Findings, TokenScore
from rag_eval_hooks.sample import Sample
from rag_eval_hooks.score import AnnotatorKind


@runtime_checkable
class Judge(Protocol):
    """Makes findings about samples. Runs only in the evaluator's event loop.

    Attributes:
        name: Kind and model, shown on scores.
        annotator_kind: `LLM` for a language model, `CODE` for any other judge.
        version: Version of the prompts or rules. Scores of different versions are not comparable.

    A judge may have two optional flags. `screening = True` marks a judge that is too weak for
    decisions and only suggests samples to review, like the heuristic judge.

    `one_call = True` marks a judge that finds claims and entities without a request. Then the first
    `make` asks only for claims and entities, and the second for all other findings. A third `make`
    asks for findings that a metric turns out to need after it saw the verdicts of the second.
    """

    @property
    def name(self) -> str: ...

    @property
    def annotator_kind(self) -> AnnotatorKind: ...

    @property
    def version(self) -> str: ...

    async def make(self, sample: Sample, wanted: frozenset[Finding], known: Findings) -> Findings:
        """Make findings about a sample. The evaluator makes at most three calls per sample.

        The first call asks for claims, entities, and findings that need no other finding. The
        second call asks for verdicts on the claims and entities in `known`.

        Args:
            sample: The sample as captured.
            wanted: The findings to make.
            known: Findings from earlier calls.

        Returns:
            Each requested finding, or a `NotScored` with the cause. A list of verdicts has one
            verdict per item, in the items' order.

        Raises:
            JudgeError: The judge could make no finding.
        """
        ...

    async def aclose(self) -> None:
        """Release connections and models. Called once at shutdown."""
        ...


@runtime_checkable
class Embedder(Protocol):
    """Converts texts to vectors. The cosine of two vectors is the texts' similarity."""

    @property
    def name(self) -> str: ...

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Return one vector per text, in order. All vectors have the same length.

        Raises:
            JudgeError: The model cannot be loaded or did not reply.
        """
        ...

    async def aclose(self) -> None: ...


@runtime_checkable
class TokenScorer(Protocol):
    """Compares two texts token by token, as BERTScore does."""

    @property
    def name(self) -> str: ...

    async def score(self, candidate: str, reference: str) -> TokenScore:
        """Return precision, recall and F1 of a candidate against a reference.

        Raises:
            JudgeError: The model cannot be loaded or failed on this pair.
        """
        ...

    async def aclose(self) -> None: ...
