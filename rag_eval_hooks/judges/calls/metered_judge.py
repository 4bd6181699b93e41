"""A judge or an embedder of someone else's, within the budget and watched."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from rag_eval_hooks.calls import Caller, Operation
from rag_eval_hooks.findings import Findings
from rag_eval_hooks.judges.base import Embedder, Judge, MeteredEmbedder
from rag_eval_hooks.judges.calls.context import observed_call
from rag_eval_hooks.judges.calls.meter import Meter
from rag_eval_hooks.judges.llm import LLMJudge
from rag_eval_hooks.score import AnnotatorKind
from rag_eval_hooks.tasks import Decompose, Grade, Rate, Verify
from rag_eval_hooks.usage import Usage

__all__ = ["AllowedEmbedder", "MeteredJudge", "allowed", "metered"]


class MeteredJudge:
    """Asks the budget before each task, and tells who watches; the judge itself is not changed.

    A task counts as one call, as nobody sees the calls inside. Tokens are those that the
    findings tell as their usage.

    Args:
        judge: Makes the findings.
    """

    def __init__(self, judge: Judge) -> None:
        self._judge = judge

    @property
    def name(self) -> str:
        """The judge's."""
        return self._judge.name

    @property
    def annotator_kind(self) -> AnnotatorKind:
        """The judge's."""
        return self._judge.annotator_kind

    @property
    def version(self) -> str:
        """The judge's."""
        return self._judge.version

    async def decompose(self, task: Decompose) -> Findings:
        """The judge's findings, if there is room for a call."""
        return await self._asked(lambda: self._judge.decompose(task))

    async def verify(self, task: Verify) -> Findings:
        """The same."""
        return await self._asked(lambda: self._judge.verify(task))

    async def rate(self, task: Rate) -> Findings:
        """The same."""
        return await self._asked(lambda: self._judge.rate(task))

    async def grade(self, task: Grade) -> Findings:
        """The same."""
        return await self._asked(lambda: self._judge.grade(task))

    async def aclose(self) -> None:
        """Closes the judge."""
        await self._judge.aclose()

    async def _asked(self, ask: Callable[[], Awaitable[Findings]]) -> Findings:
        meter = Meter()
        with meter.charging(), observed_call(Caller(self.name), is_request=False):
            with meter.sending():
                findings = await ask()
            used = sum(findings.usage.values(), start=Usage())
            meter.replied(round(used.input_tokens), round(used.output_tokens))
            return findings


def metered(judge: Judge) -> Judge:
    """The judge as budget and metrics have to see it: one over a model that tells nothing."""
    counts = isinstance(judge, LLMJudge) or judge.annotator_kind is not AnnotatorKind.LLM
    return judge if counts else MeteredJudge(judge)


class AllowedEmbedder:
    """Asks the budget before each call, and tells who watches; the embedder itself is not changed.

    Args:
        embedder: Tells what it took.
    """

    def __init__(self, embedder: MeteredEmbedder) -> None:
        self._embedder = embedder

    @property
    def name(self) -> str:
        """The embedder's."""
        return self._embedder.name

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """The embedder's vectors, if there is room for a call."""
        vectors, _used = await self.embed_metered(texts)
        return vectors

    async def embed_metered(self, texts: Sequence[str]) -> tuple[list[list[float]], Usage]:
        """The same, and what the embedder tells that it took."""
        meter = Meter(embedded=texts)
        caller = Caller(self.name, Operation.EMBEDDINGS)
        with meter.charging(), observed_call(caller, is_request=False):
            with meter.sending():
                vectors, used = await self._embedder.embed_metered(texts)
            meter.replied(round(used.input_tokens), 0)
            return vectors, used

    async def aclose(self) -> None:
        """Closes the embedder."""
        await self._embedder.aclose()


def allowed(embedder: Embedder | None) -> Embedder | None:
    """The embedder as budget and metrics have to see it: one that takes tokens, asks nobody."""
    if isinstance(embedder, MeteredEmbedder) and not getattr(embedder, "asks_budget", False):
        return AllowedEmbedder(embedder)
    return embedder
