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

    `name` is kind and model, as shown on scores. Scores of different `version` are not comparable.

    Two flags are optional. `screening = True` marks a judge that only suggests samples to review,
    like the heuristic judge. `one_call = True` marks a judge that finds claims and entities without
    a request. Then the first `make` asks only for claims and entities, and the second for the rest.
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
        second call asks for verdicts on the claims and entities in `known`, the findings so far. A
        third call asks for findings that a metric needs after it saw the verdicts.

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
        """Return one vector per text, in order, all of the same length, or raise `JudgeError`."""
        ...

    async def aclose(self) -> None: ...


@runtime_checkable
class TokenScorer(Protocol):
    """Compares two texts token by token, as BERTScore does."""

    @property
    def name(self) -> str: ...

    async def score(self, candidate: str, reference: str) -> TokenScore:
        """Return precision, recall and F1 of a candidate, or raise `JudgeError`."""
        ...

    async def aclose(self) -> None: ...
