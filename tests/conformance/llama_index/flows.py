"""Workflows of an application. Old versions cannot read annotations that are kept as texts."""

import asyncio
from typing import Any

from llama_index.core.workflow import (
    Context,
    Event,
    HumanResponseEvent,
    InputRequiredEvent,
    StartEvent,
    StopEvent,
    Workflow,
    step,
)

__all__ = ["Answered", "Asking", "FanOut", "Flaky", "Nested", "Slow", "Stateful", "Streaming"]


class Part(Event):
    """A part of the work."""

    number: int
    text: str


class Answered(Event):
    """An answered part, also written to the stream."""

    number: int
    text: str


class Streaming(Workflow):
    """Writes each answer of an engine to the stream, and gives all."""

    def __init__(self, engine: Any, **more: Any) -> None:
        super().__init__(**more)
        self.engine = engine

    @step
    async def ask(self, ctx: Context, ev: StartEvent) -> StopEvent:
        """Ask one question after another."""
        answers = []
        for number, question in enumerate(ev.questions):
            answers.append(str(await self.engine.aquery(question)))
            ctx.write_event_to_stream(Answered(number=number, text=answers[-1]))
        return StopEvent(result=answers)


class FanOut(Streaming):
    """Sends a part for each question, answers several at once, and collects them."""

    @step
    async def ask(self, ctx: Context, ev: StartEvent) -> Part | None:
        """Send the parts."""
        for number, question in enumerate(ev.questions):
            ctx.send_event(Part(number=number, text=question))
        return None

    @step(num_workers=3)
    async def answer(self, ctx: Context, ev: Part) -> Answered:
        """Answer a part."""
        return Answered(number=ev.number, text=str(await self.engine.aquery(ev.text)))

    @step
    async def collect(self, ctx: Context, ev: Answered) -> StopEvent | None:
        """Wait for all."""
        parts = ctx.collect_events(ev, [Answered] * self.parts)
        if parts is None:
            return None
        return StopEvent(result=sorted((part.number, part.text) for part in parts))

    parts: int = 0


def _state(ctx: Context) -> Any:
    return getattr(ctx, "store", ctx)


class Stateful(Streaming):
    """Counts its runs and keeps its answers in the context."""

    @step
    async def ask(self, ctx: Context, ev: StartEvent) -> StopEvent:
        """Ask, and remember."""
        state = _state(ctx)
        answers = [
            *await state.get("answers", default=[]),
            str(await self.engine.aquery(ev.question)),
        ]
        await state.set("answers", answers)
        return StopEvent(result=len(answers))


class Asking(Streaming):
    """Asks a human before it answers."""

    @step
    async def ask(self, ctx: Context, ev: StartEvent) -> InputRequiredEvent:
        """Ask the human."""
        await _state(ctx).set("question", ev.question)
        return InputRequiredEvent(prefix=ev.question)

    @step
    async def answer(self, ctx: Context, ev: HumanResponseEvent) -> StopEvent:
        """Answer with what the human said."""
        question = await _state(ctx).get("question")
        return StopEvent(result=[ev.response, str(await self.engine.aquery(question))])


class UpToFour:
    """Retry policy: four attempts in all."""

    def next(
        self, elapsed_time: float, attempts: int, error: Exception, **more: Any
    ) -> float | None:
        """Return the seconds to wait, or None to give up."""
        return 0.001 if attempts < 4 else None


class Flaky(Streaming):
    """Fails some times before it answers."""

    failures: int = 0
    attempts: int = 0

    @step(retry_policy=UpToFour())
    async def ask(self, ctx: Context, ev: StartEvent) -> StopEvent:
        """Fail, or answer."""
        self.attempts += 1
        if self.attempts <= self.failures:
            raise ConnectionError(f"{ev.question} {self.attempts}")
        return StopEvent(result=str(await self.engine.aquery(ev.question)))


class Slow(Streaming):
    """Answers, says so, and then waits for ever."""

    @step
    async def ask(self, ctx: Context, ev: StartEvent) -> StopEvent:
        """Wait after the answer."""
        ctx.write_event_to_stream(
            Answered(number=0, text=str(await self.engine.aquery(ev.question)))
        )
        await asyncio.Event().wait()
        return StopEvent(result=None)


class Nested(Streaming):
    """Runs another workflow in a step."""

    @step
    async def ask(self, ctx: Context, ev: StartEvent) -> StopEvent:
        """Run it for each question, at once."""
        runs = [Stateful(self.engine).run(question=question) for question in ev.questions]
        return StopEvent(result=await asyncio.gather(*runs))
