"""What judges and embedders are to the pipeline."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from rag_eval_hooks.findings import Findings, TokenScore
from rag_eval_hooks.score import AnnotatorKind
from rag_eval_hooks.tasks import Decompose, Grade, Rate, Verify
from rag_eval_hooks.usage import Usage

__all__ = ["Embedder", "Judge", "MeteredEmbedder", "TokenScorer"]


@runtime_checkable
class Judge(Protocol):
    """Makes findings. Runs in the evaluator's event loop only, never on a request.

    Attributes:
        name: What stands on scores as annotator: kind and model.
        annotator_kind: `LLM` for a language model, `CODE` for anything else.
        version: Version of the prompts or rules; scores of different versions do not compare.
    """

    @property
    def name(self) -> str: ...

    @property
    def annotator_kind(self) -> AnnotatorKind: ...

    @property
    def version(self) -> str: ...

    async def decompose(self, task: Decompose) -> Findings:
        """Makes the wanted findings, each either its content or an absence with the cause.

        Raises:
            JudgeError: None of them could be made.
        """
        ...

    async def verify(self, task: Verify) -> Findings:
        """The same for the second task."""
        ...

    async def rate(self, task: Rate) -> Findings:
        """The same for the third task."""
        ...

    async def grade(self, task: Grade) -> Findings:
        """The same for the fourth task."""
        ...

    async def aclose(self) -> None:
        """Releases connections and models. Called once, at shutdown."""
        ...


@runtime_checkable
class Embedder(Protocol):
    """Turns texts into vectors whose cosine is their similarity."""

    @property
    def name(self) -> str: ...

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """One vector per text, in order, all of one length.

        Raises:
            JudgeError: The model cannot be loaded or did not answer.
        """
        ...

    async def aclose(self) -> None:
        """Releases connections and models. Called once, at shutdown."""
        ...


@runtime_checkable
class MeteredEmbedder(Embedder, Protocol):
    """An embedder that tells what it took."""

    async def embed_metered(self, texts: Sequence[str]) -> tuple[list[list[float]], Usage]:
        """What `embed` gives, and this caller's part of the tokens; nothing for cached texts."""
        ...


@runtime_checkable
class TokenScorer(Protocol):
    """Compares texts token by token, as BERTScore does."""

    @property
    def name(self) -> str: ...

    async def score(self, candidate: str, reference: str) -> TokenScore:
        """Precision, recall and F1 of a candidate against a reference.

        Raises:
            JudgeError: The model cannot be loaded.
        """
        ...

    async def aclose(self) -> None:
        """Releases the model. Called once, at shutdown."""
        ...
