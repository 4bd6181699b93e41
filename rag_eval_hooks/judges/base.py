"""Interfaces of judges, embedders and token scorers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from rag_eval_hooks.findings import Finding, Findings, TokenScore
from rag_eval_hooks.sample import Sample
from rag_eval_hooks.score import AnnotatorKind


@runtime_checkable
class Judge(Protocol):
    """Makes findings. Runs only in the evaluator's event loop, never on a request's thread.

    Attributes:
        name: Name on the scores: kind and model.
        annotator_kind: `LLM` for a language model, `CODE` for anything else.
        version: Version of the prompts or rules; scores of different versions are not comparable.

    A judge may also have a flag `screening`. True means that its scores help to find bad answers
    but are too weak for decisions, like those of the heuristic judge. A flag `one_call` means that
    the judge makes claims and entities without a request. Then the first call of `make` asks only
    for these, and the second for everything else. A third call asks for findings that a metric
    needs only because of another finding.
    """

    @property
    def name(self) -> str: ...

    @property
    def annotator_kind(self) -> AnnotatorKind: ...

    @property
    def version(self) -> str: ...

    async def make(self, sample: Sample, wanted: frozenset[Finding], known: Findings) -> Findings:
        """Make findings about a sample. Called at most three times per sample.

        The first call asks for claims, entities and every finding that needs no other finding. The
        second call asks for verdicts on the claims and entities in `known`.

        Args:
            sample: The sample as captured.
            wanted: The findings to make.
            known: Findings that already exist.

        Returns:
            Each requested finding, or a `NotScored` with the cause. Verdicts are in the order of
            the items, one per item.

        Raises:
            JudgeError: No finding could be made.
        """
        ...

    async def aclose(self) -> None:
        """Release connections and models. Called once, at shutdown."""
        ...


@runtime_checkable
class Embedder(Protocol):
    """Turns texts into vectors whose cosine is their similarity."""

    @property
    def name(self) -> str: ...

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Return one vector per text, in order, all of one length.

        Raises:
            JudgeError: The model cannot be loaded or did not reply.
        """
        ...

    async def aclose(self) -> None: ...


@runtime_checkable
class TokenScorer(Protocol):
    """Compares texts token by token, as BERTScore does."""

    @property
    def name(self) -> str: ...

    async def score(self, candidate: str, reference: str) -> TokenScore:
        """Return precision, recall and F1 of a candidate against a reference.

        Raises:
            JudgeError: The model cannot be loaded.
        """
        ...

    async def aclose(self) -> None: ...
