"""Workflows of LlamaIndex that stop for somebody and go on from a stored context.

Old versions cannot read annotations that are kept as texts.
"""

import asyncio
import contextlib
import json
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
)

from rag_eval_hooks import Sample
from tests.matrix.llama_index.fixtures import only, opened, samples, texts
from tests.matrix.llama_index.flows import Flow, flow, store
from tests.matrix.llama_index.kit import Corpus, Draw, in_turn, pick
from tests.support.variation import run_seed

pytestmark = [
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.skipif(
        not hasattr(Context, "wait_for_event"), reason="this version waits for nobody"
    ),
]
JsonSerializer = pytest.importorskip(
    "llama_index.core.workflow.context_serializers", reason="this version stores no context"
).JsonSerializer
WAYS = ("usual name", "name of the input", "event again")


def flow_of(made: Flow, way: str) -> Any:
    draw, begin = made.draw, StartEvent
    kept_as, texts_at = "question" if way == "usual name" else made.asked, draw.name()

    async def search(ctx: Any, ev: Any) -> Any:
        await store(ctx).set(kept_as, getattr(ev, made.asked))
        await store(ctx).set(texts_at, await made.texts())
        return InputRequiredEvent(prefix="May I?")

    async def reply(ctx: Any, ev: Any) -> Any:
        found = await store(ctx).get(texts_at)
        return StopEvent(result=await made.tell(found, await store(ctx).get(kept_as)))

    async def again(ctx: Any, ev: Any) -> Any:
        found = await made.texts()
        await ctx.wait_for_event(HumanResponseEvent, waiter_event=InputRequiredEvent(prefix="?"))
        return StopEvent(result=await made.tell(found, getattr(ev, made.asked)))

    if way == "event again":
        # A step that waits on its way, and is done again.
        return flow(draw, (again, begin, StopEvent))
    return flow(draw, (search, begin, InputRequiredEvent), (reply, HumanResponseEvent, StopEvent))


async def stopped(run: Any, **given: Any) -> str:
    handler = run.run(**given)
    async for event in handler.stream_events():
        if isinstance(event, InputRequiredEvent):
            break
    stored = json.dumps(handler.ctx.to_dict(serializer=JsonSerializer()))
    await handler.cancel_run()
    with contextlib.suppress(BaseException):
        await handler
    return stored


async def resumed(run: Any, stored: str, asked: str | None = None) -> Any:
    context = Context.from_dict(run, json.loads(stored), serializer=JsonSerializer())
    handler = run.run(ctx=context)
    if asked is not None:
        said = [ChatMessage(role="user", content=asked)]
        memory = ChatMemoryBuffer.from_defaults(chat_history=said, token_limit=2000)
        # What keeps messages cannot be stored as JSON with every version of pydantic.
        await store(handler.ctx).set("memory", memory)
    handler.ctx.send_event(HumanResponseEvent(response="Yes, do."))
    return await handler


def parts(sample: Sample) -> tuple[str, list[str], str | None, str]:
    return sample.question, texts(sample), sample.answer, sample.status.value


@pytest.mark.parametrize("is_elsewhere", [False, True], ids=["here", "elsewhere"])
@pytest.mark.parametrize("way", WAYS)
def test_workflow_that_goes_on_from_a_stored_context_is_scored_once(
    way: str, is_elsewhere: bool
) -> None:
    with opened() as world:
        made = Flow(Draw(run_seed(), "run", world))
        shown = made.corpus.shown()
        made.answer, run = shown[1], flow_of(made, way)
        stored = asyncio.run(stopped(run, **{made.asked: made.question}))
        assert only(world).status == "cancelled"
        if not is_elsewhere:
            assert asyncio.run(resumed(run, stored)) == made.answer
            (last,) = (sample for sample in samples(world) if sample.status == "ok")
            assert world.evals.stats().incidents == {}
    if is_elsewhere:
        with opened() as world:
            assert asyncio.run(resumed(run, stored)) == made.answer
            assert world.evals.stats().incidents == {}
            if way == "name of the input":
                # A name that means nothing, of which this process has never heard.
                assert {s.question for s in samples(world)} <= {"", made.question}
                return
            last = only(world)
    # Elsewhere only the store tells of them, here the retriever of the first run.
    kept = ["\n\n".join(shown)] if is_elsewhere and way != "event again" else shown
    assert parts(last) == (made.question, kept, made.answer, "ok")


def test_texts_of_tools_before_an_interrupt_are_contexts_in_another_process() -> None:
    from llama_index.core.agent.workflow import FunctionAgent

    with opened() as world:
        draw = Draw(run_seed(), "run", world)
        corpus, question, answer = Corpus(draw), draw.question(), draw.answer()
        found = "\n\n".join(corpus.shown())
        names = [draw.name(), draw.name()]

        def search(query: str) -> str:
            return "\n\n".join(node.get_content() for node in corpus.retriever.retrieve(query))

        async def confirm(ctx: Context) -> str:
            event = InputRequiredEvent(prefix="May I?")
            waited = await ctx.wait_for_event(HumanResponseEvent, waiter_event=event)
            return str(waited.response)

        def agent() -> Any:
            tools = [
                FunctionTool.from_defaults(search, name=names[0], description=names[0]),
                FunctionTool.from_defaults(async_fn=confirm, name=names[1], description=names[1]),
            ]
            calls = [pick(names[0], query=corpus.question), pick(names[1])]
            model = in_turn(answer, *calls)
            return FunctionAgent(tools=tools, llm=model, streaming=False, timeout=120)

        stored = asyncio.run(stopped(agent(), user_msg=question))
    with opened() as world:
        assert str(asyncio.run(resumed(agent(), stored, question))) == answer
        assert world.evals.stats().incidents == {}
        assert parts(only(world)) == (question, [found], answer, "ok")
