"""Workflows of LlamaIndex that stop for somebody and go on from a stored context.

Old versions cannot read annotations that are kept as texts.
"""

import asyncio
import contextlib
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.memory import ChatMemoryBuffer
from llama_index.core.tools import FunctionTool
from llama_index.core.workflow import (
    Context,
    HumanResponseEvent,
    InputRequiredEvent,
    StartEvent,
    StopEvent,
    Workflow,
    step,
)
from tests.matrix.llama_index.variants import Corpus, answered, in_turn, says

from rag_eval_hooks import Sample
from rag_eval_hooks_llama_index import enable
from tests.matrix.llama_index.kit import pick
from tests.matrix.world import World
from tests.support.size import size
from tests.support.variation import Variation, seeds

pytestmark = [
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.skipif(
        not hasattr(Context, "wait_for_event"), reason="this version waits for nobody"
    ),
]
JsonSerializer = pytest.importorskip(
    "llama_index.core.workflow.context_serializers", reason="this version stores no context"
).JsonSerializer
Steps = dict[Callable[..., Any], tuple[type, type]]
"""Bodies of steps, with what each is given and gives."""
WAYS = ("usual name", "name of the input", "declared name", "event again", "rows")


async def found(corpus: Corpus) -> list[str]:
    nodes = await corpus.retriever.aretrieve(corpus.question)
    return [node.get_content() for node in nodes]


async def say(answer: str, question: str, texts: list[str]) -> StopEvent:
    prompt = "\n\n".join(["Use only:", *texts, f"Question: {question}"])
    return StopEvent(result=(await says(answer).acomplete(prompt)).text)


def in_two_steps(draw: Variation, asked: str, kept_as: str, rows: bool) -> Steps:
    """Steps that retrieve, and answer from what they kept in the store."""
    texts_at = draw.name()

    async def search(corpus: Corpus, answer: str, ctx: Any, ev: Any) -> Any:
        store, texts = getattr(ctx, "store", ctx), await found(corpus)
        await store.set(kept_as, getattr(ev, asked))
        kept = [{draw.name(): n, "text": text} for n, text in enumerate(texts)]
        await store.set(texts_at, kept if rows else "\n\n".join(texts))
        return InputRequiredEvent(prefix="May I?")

    async def reply(corpus: Corpus, answer: str, ctx: Any, ev: Any) -> Any:
        store = getattr(ctx, "store", ctx)
        kept = await store.get(texts_at)
        texts = [row["text"] for row in kept] if rows else [kept]
        return await say(answer, await store.get(kept_as), texts)

    return {search: (StartEvent, InputRequiredEvent), reply: (HumanResponseEvent, StopEvent)}


def in_one_step(asked: str) -> Steps:
    """A step that waits on its way, and is done again."""

    async def again(corpus: Corpus, answer: str, ctx: Any, ev: Any) -> Any:
        texts = await found(corpus)
        await ctx.wait_for_event(HumanResponseEvent, waiter_event=InputRequiredEvent(prefix="?"))
        return await say(answer, getattr(ev, asked), texts)

    return {again: (StartEvent, StopEvent)}


def flow_of(draw: Variation, way: str, corpus: Corpus, answer: str) -> tuple[type[Workflow], str]:
    """A workflow that retrieves, waits for somebody, then answers; and the name of its input."""
    asked = draw.name()
    begin: Any = StartEvent
    if way == "declared name":
        begin = type(
            "Ask", (StartEvent,), {"__annotations__": {asked: str}, "__module__": __name__}
        )
        # A stored event is made again by the name of its class.
        globals()["Ask"] = begin
    kept_as = "question" if way == "usual name" else asked
    bodies = in_one_step(asked)
    if way != "event again":
        bodies = in_two_steps(draw, asked, kept_as, way == "rows")

    def made(body: Any, given: Any, gives: Any) -> Any:
        async def method(self: Any, ctx: Any, ev: Any) -> Any:
            return await body(corpus, answer, ctx, ev)

        method.__qualname__, method.__name__ = f"Flow.{body.__name__}", body.__name__
        given = begin if given is StartEvent else given
        method.__annotations__ = {"ctx": Context, "ev": given, "return": gives}
        return step(method)

    steps = {body.__name__: made(body, *types) for body, types in bodies.items()}
    return type("Flow", (Workflow,), {**steps, "__module__": __name__}), asked


async def stopped(flow: Any, **given: Any) -> str:
    """Run until somebody is asked; return the context as it is stored."""
    handler = flow.run(**given)
    async for event in handler.stream_events():
        if isinstance(event, InputRequiredEvent):
            break
    stored = json.dumps(handler.ctx.to_dict(serializer=JsonSerializer()))
    await handler.cancel_run()
    with contextlib.suppress(BaseException):
        await handler
    return stored


async def resumed(flow: Any, stored: str, asked: str | None = None) -> Any:
    """Go on from a stored context with somebody's reply; an agent needs its memory, too."""
    context = Context.from_dict(flow, json.loads(stored), serializer=JsonSerializer())
    handler = flow.run(ctx=context)
    if asked is not None:
        said = [ChatMessage(role="user", content=asked)]
        memory = ChatMemoryBuffer.from_defaults(chat_history=said, token_limit=2000)
        # What keeps messages cannot be stored as JSON with every version of pydantic.
        await getattr(handler.ctx, "store", handler.ctx).set("memory", memory)
    handler.ctx.send_event(HumanResponseEvent(response="Yes, do."))
    return await handler


@contextlib.contextmanager
def captured() -> Iterator[World]:
    """A process that captures: what it knows of others is what they stored."""
    world = World()
    registration = enable(world.evals)
    yield world
    registration.disable()
    world.close()


def parts(sample: Sample) -> tuple[str, list[str] | None, str | None, str]:
    contexts = None if sample.contexts is None else [c.text for c in sample.contexts]
    return sample.question, contexts, sample.answer, sample.status.value


@pytest.mark.parametrize("elsewhere", [False, True], ids=["here", "elsewhere"])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("seed", seeds(size(2, 10)))
def test_a_workflow_goes_on_from_a_stored_context(seed: int, way: str, elsewhere: bool) -> None:
    """One sample is scored, with the first run's question and what it retrieved."""
    draw = Variation(seed)
    corpus, question = Corpus(draw, 2), draw.question()
    answer = corpus.shown()[1]
    flow, asked = flow_of(draw, way, corpus, answer)
    with captured() as world:
        stored = asyncio.run(stopped(flow(timeout=120), **{asked: question}))
        (first,) = world.seen()
        assert first.sample.status == "cancelled"
        if not elsewhere:
            assert asyncio.run(resumed(flow(timeout=120), stored)) == answer
            (last,) = (seen for seen in world.seen() if seen.sample.status == "ok")
            assert world.evals.stats().incidents == {}
    if elsewhere:
        with captured() as world:
            assert asyncio.run(resumed(flow(timeout=120), stored)) == answer
            found = world.seen()
            assert world.evals.stats().incidents == {}
            if way in ("name of the input", "rows"):
                # A name that means nothing, of which this process has never heard.
                assert not found or found[0].sample.question in ("", question)
                return
            (last,) = found
    kept = corpus.shown() if way in ("event again", "rows") else ["\n\n".join(corpus.shown())]
    assert parts(last.sample) == (question, kept, answer, "ok")


@pytest.mark.parametrize("seed", seeds(size(2, 10)))
def test_an_agent_goes_on_from_a_stored_context(seed: int) -> None:
    """Finds of an agent's tools before an interrupt are its context, in another process, too."""
    from llama_index.core.agent.workflow import FunctionAgent

    draw = Variation(seed)
    corpus, question, answer = Corpus(draw, 2), draw.question(), answered(draw)
    names = [draw.name(), draw.name()]

    def search(query: str) -> str:
        return "\n\n".join(node.get_content() for node in corpus.retriever.retrieve(query))

    async def confirm(ctx: Context) -> str:
        event = InputRequiredEvent(prefix="May I?")
        return str((await ctx.wait_for_event(HumanResponseEvent, waiter_event=event)).response)

    def agent() -> Any:
        tools = [
            FunctionTool.from_defaults(search, name=names[0], description=names[0]),
            FunctionTool.from_defaults(async_fn=confirm, name=names[1], description=names[1]),
        ]
        calls = [pick(names[0], query=corpus.question), pick(names[1])]
        return FunctionAgent(tools=tools, llm=in_turn(answer, *calls), streaming=False, timeout=120)

    with captured():
        stored = asyncio.run(stopped(agent(), user_msg=question))
    with captured() as world:
        assert str(asyncio.run(resumed(agent(), stored, question))) == answer
        (last,) = world.seen()
        assert world.evals.stats().incidents == {}
    assert parts(last.sample) == (question, ["\n\n".join(corpus.shown())], answer, "ok")
