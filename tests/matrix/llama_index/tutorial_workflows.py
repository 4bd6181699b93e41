"""Workflows of LlamaIndex's tutorials, in our own words, with names drawn by a seed.

Old versions cannot read annotations that are kept as texts.
"""

import json
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from llama_index.core import SummaryIndex
from llama_index.core.base.base_query_engine import BaseQueryEngine
from llama_index.core.postprocessor import LLMRerank
from llama_index.core.response_synthesizers import CompactAndRefine
from llama_index.core.schema import NodeWithScore, TextNode
from llama_index.core.tools import FunctionTool
from llama_index.core.workflow import StartEvent, StopEvent

from tests.matrix.llama_index.kit import Scripted, prompt_text
from tests.matrix.llama_index.variants import Corpus, Variant, answered, says
from tests.matrix.llama_index.workflows import event, flow, store
from tests.support.variation import Variation

Step = Callable[[Any, Any], Awaitable[Any]]


class Names:
    """Names under which the steps of one workflow find question and nodes."""

    def __init__(self, draw: Variation) -> None:
        self._draw = draw
        self.asked, self.nodes = draw.name(), draw.name()

    def event(self) -> Any:
        return event(self._draw, self.nodes)

    def retrieving(self, corpus: Corpus, found: Any) -> Step:
        """Return a step that keeps the question and finds the passages of a corpus."""

        async def retrieve(ctx: Any, ev: Any) -> Any:
            asked = ev.get(self.asked)
            await store(ctx).set(self.asked, asked)
            return found(**{self.nodes: await corpus.retriever.aretrieve(asked)})

        return retrieve

    def writing(self, answer: str) -> Step:
        """Return a step that writes the answer from nodes and ends the workflow."""

        async def write(ctx: Any, ev: Any) -> StopEvent:
            asked, nodes = await store(ctx).get(self.asked), getattr(ev, self.nodes)
            writer = CompactAndRefine(llm=says(answer))
            return StopEvent(result=await writer.asynthesize(asked, nodes=nodes))

        return write

    def running(
        self, question: str, *steps: tuple[Step, Any, Any], workers: int = 1
    ) -> Callable[[], Awaitable[None]]:
        """Return a function that asks a workflow of these steps."""

        async def run() -> None:
            await flow(self._draw, *steps, workers=workers).run(**{self.asked: question})

        return run


def rag_workflow(draw: Variation) -> Variant:
    """Retrieve, rerank by a model, synthesize: three steps, and a Response as the result."""
    corpus, names, answer = Corpus(draw, 3), Names(draw), answered(draw)
    found, ranked = names.event(), names.event()
    keeps = draw.chance.randrange(3)
    ranker = LLMRerank(llm=says(f"Doc: {keeps + 1}, Relevance: 9"), top_n=1)

    async def rerank(ctx: Any, ev: Any) -> Any:
        asked, nodes = await store(ctx).get(names.asked), getattr(ev, names.nodes)
        return ranked(**{names.nodes: ranker.postprocess_nodes(nodes, query_str=asked)})

    run = names.running(
        corpus.question,
        (names.retrieving(corpus, found), StartEvent, found),
        (rerank, found, ranked),
        (names.writing(answer), ranked, StopEvent),
    )
    return Variant(run, corpus.question, corpus.shown()[keeps : keeps + 1], answer)


async def passing(good: Sequence[str], texts: Sequence[str]) -> list[str]:
    grader = Scripted(reply=lambda m: str(any(text in prompt_text(m) for text in good)))
    graded = [await grader.acomplete(f"Of use? {text}") for text in texts]
    return [text for text, one in zip(texts, graded, strict=True) if one.text == "True"]


def corrective(draw: Variation) -> Variant:
    """Each passage is graded; the question is rewritten for a search beside the good ones.

    The answer is written from an index of both, or from a prompt where the search is named.
    """
    corpus, names, answer = Corpus(draw, 3), Names(draw), answered(draw)
    shown, web = corpus.shown(), draw.passage()
    good = draw.chance.sample(shown, draw.chance.randint(1, 2))
    grade_at, hits_at = draw.name(), draw.name()
    found, graded, searched = names.event(), event(draw, grade_at), event(draw, hits_at)
    searching = FunctionTool.from_defaults(lambda query: web, name=draw.name(), description="x")
    rewritten, indexed = draw.question(), draw.chance.random() < 0.5

    async def judge(ctx: Any, ev: Any) -> Any:
        texts = [node.get_content() for node in getattr(ev, names.nodes)]
        return graded(**{grade_at: await passing(good, texts)})

    async def search(ctx: Any, ev: Any) -> Any:
        asked = await store(ctx).get(names.asked)
        query = await says(rewritten).acomplete(f"Rewrite: {asked}")
        hits = searching.call(query=query.text)
        return searched(**{hits_at: [*getattr(ev, grade_at), str(hits)]})

    async def write(ctx: Any, ev: Any) -> StopEvent:
        asked = await store(ctx).get(names.asked)
        texts = "\n\n".join(getattr(ev, hits_at))
        if indexed:
            index = SummaryIndex([TextNode(text=texts)])
            said = await index.as_query_engine(llm=says(answer)).aquery(asked)
            return StopEvent(result=str(said))
        written = await says(answer).acomplete(f"Use only:\n{texts}\nQuestion: {asked}")
        return StopEvent(result=written.text)

    run = names.running(
        corpus.question,
        (names.retrieving(corpus, found), StartEvent, found),
        (judge, found, graded),
        (search, graded, searched),
        (write, searched, StopEvent),
    )
    kept = [*(text for text in shown if text in good), web]
    contexts = ["\n\n".join(kept)] if indexed else kept
    options = {} if indexed else {"retrieval_tools": [searching.metadata.name]}
    return Variant(run, corpus.question, contexts, answer, options=options)


def numbered_workflow(draw: Variation) -> Variant:
    """Passages become numbered sources in one step, an answer with citations in the next."""
    corpus, names = Corpus(draw, 2), Names(draw)
    answer, heading = f"{draw.sentence()} [1]", draw.name()
    found, numbered = names.event(), names.event()

    async def number(ctx: Any, ev: Any) -> Any:
        nodes = [
            NodeWithScore(node=TextNode(text=f"{heading} {n}:\n{one.get_content()}"))
            for n, one in enumerate(getattr(ev, names.nodes), 1)
        ]
        return numbered(**{names.nodes: nodes})

    run = names.running(
        corpus.question,
        (names.retrieving(corpus, found), StartEvent, found),
        (number, found, numbered),
        (names.writing(answer), numbered, StopEvent),
    )
    contexts = [f"{heading} {n}:\n{text}" for n, text in enumerate(corpus.shown(), 1)]
    return Variant(run, corpus.question, contexts, answer)


def divided_workflow(draw: Variation) -> Variant:
    """A model divides the question; each part goes to an engine, and another model combines."""
    question, answer, count = draw.question(), answered(draw), draw.chance.randint(2, 3)
    names = Names(draw)
    engines = {
        corpus.question: (corpus, corpus.engine(says(answered(draw))))
        for corpus in (Corpus(draw, 2) for _ in range(count))
    }
    part_at, said_at = draw.name(), draw.name()
    part, said = event(draw, part_at), event(draw, part_at, said_at)
    planner = says(json.dumps({"sub_questions": list(engines)}))

    async def divide(ctx: Any, ev: Any) -> Any:
        await store(ctx).set(names.asked, ev.get(names.asked))
        plan = await planner.acomplete(f"Divide: {ev.get(names.asked)}")
        for one in json.loads(plan.text)["sub_questions"]:
            ctx.send_event(part(**{part_at: one}))

    async def ask(ctx: Any, ev: Any) -> Any:
        asked = getattr(ev, part_at)
        reply = await engines[asked][1].aquery(asked)
        return said(**{part_at: asked, said_at: str(reply)})

    async def combine(ctx: Any, ev: Any) -> Any:
        ready = ctx.collect_events(ev, [said] * count)
        if ready is None:
            return None
        pairs = "\n".join(f"{getattr(r, part_at)}: {getattr(r, said_at)}" for r in ready)
        asked = await store(ctx).get(names.asked)
        reply = await says(answer).acomplete(f"Combine for {asked}:\n{pairs}")
        return StopEvent(result=reply.text)

    run = names.running(
        question,
        (divide, StartEvent, part | None),
        (ask, part, said),
        (combine, said, StopEvent | None),
        workers=3,
    )
    contexts = [text for corpus, _ in engines.values() for text in corpus.shown()]
    return Variant(run, question, contexts, answer, any_order=True)


async def found_by(source: Any, asked: str) -> list[str]:
    """What an engine says to a question, or the texts that a retriever finds for it."""
    if isinstance(source, BaseQueryEngine):
        return [str(await source.aquery(asked))]
    return [node.get_content() for node in await source.aretrieve(asked)]


def routed_workflow(draw: Variation) -> Variant:
    """A model chooses one engine or retriever a step, until it has enough.

    Of one engine the user is given the answer itself; else a model writes from what was found.
    """
    question, answer, names = draw.question(), answered(draw), Names(draw)
    chosen = draw.chance.sample(range(3), draw.chance.randint(1, 2))
    said = answer if len(chosen) == 1 else answered(draw)
    corpora = [Corpus(draw, 2) for _ in range(3)]
    sources = [draw.chance.choice([c.retriever, c.engine(says(said))]) for c in corpora]
    about = [f"{n}: {draw.sentence()}" for n in range(3)]
    chooser, found_at, number_at = says(*map(str, chosen), "enough"), draw.name(), draw.name()
    going_on, ready = event(draw, found_at), event(draw, found_at)
    picked = event(draw, found_at, number_at)

    async def begin(ctx: Any, ev: Any) -> Any:
        await store(ctx).set(names.asked, ev.get(names.asked))
        return going_on(**{found_at: []})

    async def choose(ctx: Any, ev: Any) -> Any:
        found, asked = getattr(ev, found_at), await store(ctx).get(names.asked)
        number = (await chooser.acomplete("\n".join([*about, *found, asked]))).text
        if number == "enough":
            return ready(**{found_at: found})
        return picked(**{found_at: found, number_at: int(number)})

    async def ask(ctx: Any, ev: Any) -> Any:
        asked = await store(ctx).get(names.asked)
        new = await found_by(sources[getattr(ev, number_at)], asked)
        return going_on(**{found_at: [*getattr(ev, found_at), *new]})

    async def write(ctx: Any, ev: Any) -> StopEvent:
        found, asked = getattr(ev, found_at), await store(ctx).get(names.asked)
        if found == [answer]:
            return StopEvent(result=answer)
        texts = "\n\n".join(found)
        reply = await says(answer).acomplete(f"Use only:\n{texts}\nQuestion: {asked}")
        return StopEvent(result=reply.text)

    run = names.running(
        question,
        (begin, StartEvent, going_on),
        (choose, going_on, picked | ready),
        (ask, picked, going_on),
        (write, ready, StopEvent),
    )
    contexts = [text for number in chosen for text in corpora[number].shown()]
    return Variant(run, question, contexts, answer, any_order=True)


WORKFLOWS = (
    rag_workflow,
    corrective,
    numbered_workflow,
    divided_workflow,
    routed_workflow,
)
"""Those that are no agents."""
