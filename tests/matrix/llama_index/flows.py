"""Workflows of the user's own, and of tutorials in our own words.

Old versions cannot read annotations that are kept as texts.
"""

import json
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from llama_index.core import SummaryIndex
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.response_synthesizers import CompactAndRefine
from llama_index.core.schema import TextNode
from llama_index.core.tools import FunctionTool
from llama_index.core.workflow import Context, Event, StartEvent, StopEvent, Workflow, step

from tests.matrix.llama_index.kit import (
    QUERY_SPANS,
    Asked,
    Corpus,
    Draw,
    Scripted,
    prompt_text,
    says,
    shape,
)
from tests.matrix.llama_index.retrieval import Masking
from tests.support.variation import Variation

GROUP = "workflows"
Step = Callable[[Any, Any], Awaitable[Any]]


def store(ctx: Any) -> Any:
    """Return the store that steps share; old versions keep it in the context itself."""
    return getattr(ctx, "store", ctx)


def event(draw: Variation, *names: str) -> Any:
    fields = dict.fromkeys(names, Any)
    return type(draw.name().title(), (Event,), {"__annotations__": fields, "__module__": __name__})


def flow(draw: Variation, *steps: tuple[Step, Any, Any]) -> Any:
    methods: dict[str, Any] = {"__module__": __name__}
    name = draw.name().title()

    def method_of(body: Step, takes: Any, gives: Any) -> None:
        async def method(self: Any, ctx: Any, ev: Any) -> Any:
            return await body(ctx, ev)

        called = draw.name()
        method.__name__, method.__qualname__ = called, f"{name}.{called}"
        method.__annotations__ = {"ctx": Context, "ev": takes, "return": gives}
        methods[called] = step(num_workers=1)(method)

    for one in steps:
        method_of(*one)
    return type(name, (Workflow,), methods)(timeout=120.0)


class Flow:
    def __init__(self, draw: Draw, count: int = 2) -> None:
        self.draw = draw
        self.asked, self.nodes = draw.name(), draw.name()
        self.corpus = Corpus(draw, count)
        self.question, self.answer = self.corpus.question, draw.answer()
        self.found = self.event()

    def event(self) -> Any:
        return event(self.draw, self.nodes)

    async def retrieve(self, ctx: Any, ev: Any) -> Any:
        question = ev.get(self.asked)
        await store(ctx).set(self.asked, question)
        return self.found(**{self.nodes: await self.corpus.retriever.aretrieve(question)})

    async def write(self, ctx: Any, ev: Any) -> StopEvent:
        question, nodes = await store(ctx).get(self.asked), getattr(ev, self.nodes)
        writer = CompactAndRefine(llm=says(self.answer))
        return StopEvent(result=await writer.asynthesize(question, nodes=nodes))

    async def texts(self) -> str:
        found = await self.corpus.retriever.aretrieve(self.question)
        return "\n\n".join(node.get_content() for node in found)

    async def tell(self, texts: str, question: str) -> str:
        prompt = f"Use only:\n{texts}\nQuestion: {question}"
        return str((await says(self.answer).acomplete(prompt)).text)

    def run(self, *steps: tuple[Step, Any, Any]) -> Callable[[], Any]:
        async def run() -> None:
            await flow(self.draw, *steps).run(**{self.asked: self.question})

        return run

    def due(self, run: Callable[[], Any], **more: Any) -> Asked:
        more = {"contexts": self.corpus.shown(), "answer": self.answer, **more}
        return Asked(run, self.question, **more)


# Steps, results and streams.


@shape(GROUP, "run")
def started_long_before_it_is_awaited(draw: Draw) -> Asked:
    made, other = Flow(draw), Corpus(draw)
    answer = draw.answer()

    async def ask(ctx: Any, ev: Any) -> StopEvent:
        return StopEvent(result=await made.tell(await made.texts(), ev.get(made.asked)))

    async def run() -> None:
        running = flow(draw, (ask, StartEvent, StopEvent)).run(**{made.asked: made.question})
        with draw.world.evals.interaction(other.question):
            await other.engine(says(answer)).aquery(other.question)
        await running

    beside = Asked(run, other.question, other.shown(), answer)
    return made.due(run, also=[beside])


@shape(GROUP, "run")
def ends_with_an_object_of_its_own(draw: Draw) -> Asked:
    made, result = Flow(draw), {draw.name(): 2, draw.name(): draw.name()}

    async def ask(ctx: Any, ev: Any) -> StopEvent:
        await made.tell(await made.texts(), ev.get(made.asked))
        return StopEvent(result=result)

    run = made.run((ask, StartEvent, StopEvent))
    return made.due(run, answer=json.dumps(result, ensure_ascii=False))


@shape(GROUP, "run")
def gives_out_a_generator_of_its_own(draw: Draw) -> Asked:
    made = Flow(draw)

    async def ask(ctx: Any, ev: Any) -> StopEvent:
        prompt = f"{await made.texts()}\n{ev.get(made.asked)}"
        stream: Any = await says(made.answer).astream_chat([ChatMessage(content=prompt)])

        async def shouted() -> Any:
            async for part in stream:
                yield (part.delta or "").upper()

        return StopEvent(result=shouted())

    async def run() -> None:
        stream = await flow(draw, (ask, StartEvent, StopEvent)).run(**{made.asked: made.question})
        assert [part async for part in stream]

    return made.due(run, answer=None, spans=QUERY_SPANS)


# Tutorials.


async def passing(good: Sequence[str], texts: Sequence[str]) -> list[str]:
    grader = Scripted(reply=lambda m: str(any(text in prompt_text(m) for text in good)))
    graded = [await grader.acomplete(f"Of use? {text}") for text in texts]
    return [text for text, one in zip(texts, graded, strict=True) if one.text == "True"]


@shape(GROUP)
def corrective(draw: Draw) -> Asked:
    """Each passage is graded; the question is rewritten for a search beside the good ones."""
    made, web = Flow(draw, 3), draw.passage()
    shown = made.corpus.shown()
    good = draw.chance.sample(shown, draw.chance.randint(1, 2))
    grade_at, hits_at = draw.name(), draw.name()
    graded, searched = event(draw, grade_at), event(draw, hits_at)
    searching = FunctionTool.from_defaults(lambda query: web, name=draw.name(), description="x")
    rewritten = draw.question()

    async def judge(ctx: Any, ev: Any) -> Any:
        texts = [node.get_content() for node in getattr(ev, made.nodes)]
        return graded(**{grade_at: await passing(good, texts)})

    async def search(ctx: Any, ev: Any) -> Any:
        asked = await store(ctx).get(made.asked)
        query = await says(rewritten).acomplete(f"Rewrite: {asked}")
        hits = searching.call(query=query.text)
        return searched(**{hits_at: [*getattr(ev, grade_at), str(hits)]})

    async def write(ctx: Any, ev: Any) -> StopEvent:
        asked = await store(ctx).get(made.asked)
        texts = "\n\n".join(getattr(ev, hits_at))
        index = SummaryIndex([TextNode(text=texts)])
        said = await index.as_query_engine(llm=says(made.answer)).aquery(asked)
        return StopEvent(result=str(said))

    run = made.run(
        (made.retrieve, StartEvent, made.found),
        (judge, made.found, graded),
        (search, graded, searched),
        (write, searched, StopEvent),
    )
    kept = [*(text for text in shown if text in good), web]
    return made.due(run, contexts=["\n\n".join(kept)])


# Texts of events and of stores.


@shape(GROUP, "run")
def hits_within_an_answer_of_a_search(draw: Draw) -> Asked:
    """A list that holds lists of hits is none of hits itself."""
    made, passages, hits_at = Flow(draw), draw.passages(3), draw.name()
    made.answer = draw.short()
    found = event(draw, hits_at, made.asked)
    hits = [{"query": draw.sentence(), "results": [{"snippet": one} for one in passages]}]

    async def search(ctx: Any, ev: Any) -> Any:
        return found(**{hits_at: hits, made.asked: ev.get(made.asked)})

    async def tell(ctx: Any, ev: Any) -> StopEvent:
        texts = "\n".join(one["snippet"] for one in getattr(ev, hits_at)[0]["results"])
        return StopEvent(result=await made.tell(texts, getattr(ev, made.asked)))

    run = made.run((search, StartEvent, found), (tell, found, StopEvent))
    return made.due(run, contexts=passages)


@shape(GROUP, "run")
def masked_text_that_the_store_keeps(draw: Draw) -> Asked:
    made, secret, heading = Flow(draw), draw.name(), draw.passage()
    for node in made.corpus.nodes:
        node.text = f"{draw.sentence()} {secret} {draw.sentence()}"
    made.corpus.reindex()
    made.question = f"{draw.question()[:-1]} {secret}?"
    made.answer = f"{heading[:60]} {secret}"

    async def mask(ctx: Any, ev: Any) -> Any:
        found = await made.retrieve(ctx, ev)
        nodes = getattr(found, made.nodes)
        raw = "\n".join(node.get_content() for node in nodes)
        await store(ctx).set(draw.name(), f"{heading}\n{raw}")
        return made.found(**{made.nodes: Masking(secret=secret).postprocess_nodes(nodes)})

    async def tell(ctx: Any, ev: Any) -> StopEvent:
        texts = [heading, *(node.get_content() for node in getattr(ev, made.nodes))]
        asked = await store(ctx).get(made.asked)
        return StopEvent(result=await made.tell("\n\n".join(texts), asked))

    run = made.run((mask, StartEvent, made.found), (tell, made.found, StopEvent))
    shown = [text.replace(secret, "[...]") for text in made.corpus.shown(made.question)]
    return made.due(run, contexts=shown)
