"""Interfaces of judges, embedders and token scorers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from rag_eval_hooks.findings import Finding, Findings, TokenScore
from rag_eval_hooks.sample import Sample
from rag_eval_hooks.score import AnnotatorKind


@runtime_checkable
class Judge(Protocol):
    """Makes findings. Runs in the evaluator's event loop only, never on a request.

    Attributes:
        name: Annotator on the scores: kind and model.
        annotator_kind: `LLM` for a language model, `CODE` for anything else.
        version: Version of the prompts or rules; scores of different versions do not compare.

    A judge may also have a flag `screening`: True if its scores are good for finding bad answers,
    not for deciding, as those of the heuristic judge.
    """

    @property
    def name(self) -> str: ...

    @property
    def annotator_kind(self) -> AnnotatorKind: ...

    @property
    def version(self) -> str: ...

    async def make(self, sample: Sample, wanted: frozenset[Finding], known: Findings) -> Findings:
        """Make findings about a sample. Called at most twice for one sample.

        The first call asks for claims, entities and all that needs no other finding. The second
        asks for verdicts on the claims and entities, which `known` then holds.

        Args:
            sample: The sample, contexts and texts as they were captured.
            wanted: The findings to make.
            known: Findings that were made before.

        Returns:
            Each wanted finding, or its absence as a `NotScored` with the cause. Verdicts stand in
            the order of the items, one for each.

        Raises:
            JudgeError: None of them could be made.
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
            JudgeError: The model cannot be loaded or did not answer.
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
