"""Applications of LlamaIndex's tutorials, in our own words, with names drawn by a seed.

Old versions cannot read annotations that are kept as texts.
"""

import json
from collections.abc import Callable, Sequence
from typing import Any

from llama_index.core import Document, SummaryIndex, VectorStoreIndex
from llama_index.core.base.llms.types import ChatMessage, MessageRole
from llama_index.core.chat_engine.types import ChatMode
from llama_index.core.node_parser import SentenceSplitter
from llama_index.core.postprocessor import LLMRerank
from llama_index.core.query_engine import CitationQueryEngine, RouterQueryEngine
from llama_index.core.response_synthesizers import CompactAndRefine
from llama_index.core.schema import NodeWithScore, TextNode
from llama_index.core.selectors import LLMSingleSelector
from llama_index.core.tools import FunctionTool, QueryEngineTool, ToolMetadata
from llama_index.core.workflow import StartEvent, StopEvent
from pydantic import create_model

from tests.matrix.llama_index.kit import Bags, Scripted, pick, prompt_text
from tests.matrix.llama_index.variants import (
    Corpus,
    Variant,
    answered,
    asking,
    in_turn,
    says,
)
from tests.matrix.llama_index.workflows import event, flow, store
from tests.support.variation import Variation

__all__ = ["TUTORIALS"]


def starter(draw: Variation) -> Variant:
    """Documents, an index, a query engine."""
    texts, question, answer = draw.passages(2), draw.question(), answered(draw)
    index = VectorStoreIndex.from_documents(
        [Document(text=text) for text in texts],
        embed_model=Bags(),
        transformations=[SentenceSplitter(tokenizer=str.split)],
    )
    found = index.as_retriever(similarity_top_k=2).retrieve(question)
    engine = index.as_query_engine(llm=says(answer), similarity_top_k=2)
    contexts = [node.get_content() for node in found]
    return Variant(asking(draw, engine, question), question, contexts, answer)


def router(draw: Variation) -> Variant:
    """A selector chooses between a summary index and a vector index."""
    corpus, question, answer = Corpus(draw, 3), draw.question(), answered(draw)
    summary = SummaryIndex(corpus.nodes).as_query_engine(llm=says(answer))
    engines = [summary, corpus.engine(says(answer))]
    chosen = draw.chance.randrange(2)
    tools = [
        QueryEngineTool.from_defaults(engine, name=draw.name(), description=draw.sentence())
        for engine in engines
    ]
    choice = json.dumps([{"choice": chosen + 1, "reason": draw.word()}])
    engine = RouterQueryEngine(
        selector=LLMSingleSelector.from_defaults(llm=says(choice)),
        query_engine_tools=tools,
        llm=says(answer),
    )
    corpus.question = question
    contexts = corpus.shown() if chosen else [node.text for node in corpus.nodes]
    return Variant(asking(draw, engine, question), question, contexts, answer)


def chat_engine(draw: Variation) -> Variant:
    """A chat engine of any kind, on a second turn; the user's own words are the question."""
    corpus, question, answer = Corpus(draw, 2), draw.question(), answered(draw)
    modes = (ChatMode.CONTEXT, ChatMode.CONDENSE_PLUS_CONTEXT, ChatMode.CONDENSE_QUESTION)
    mode = draw.chance.choice(modes)
    condensed, earlier = corpus.question, [draw.question(), draw.sentence()]

    def reply(messages: Sequence[ChatMessage]) -> str:
        shown = any(node.text in prompt_text(messages) for node in corpus.nodes)
        return answer if shown else condensed

    engine = corpus.index.as_chat_engine(
        chat_mode=mode, llm=Scripted(reply=reply), similarity_top_k=2
    )
    history = [
        ChatMessage(role=role, content=text)
        for role, text in zip(("user", "assistant"), earlier, strict=True)
    ]
    if mode is ChatMode.CONTEXT:
        corpus.question = question
    ask: Any = draw.chance.choice([engine.chat, engine.achat])
    run = lambda: ask(question, chat_history=history)  # noqa: E731
    return Variant(run, question, corpus.shown(), answer)


def structured(draw: Variation) -> Variant:
    """A query engine that fills in a form with fields of any name."""
    corpus = Corpus(draw, 2)
    name, values = draw.name().title(), {draw.name(): draw.short(), draw.name(): draw.word()}
    form = create_model(name, **dict.fromkeys(values, (str, ...)))  # type: ignore[call-overload]
    model = Scripted(reply=lambda _: pick(name, **values))
    engine = corpus.engine(model, output_cls=form)
    answer = form(**values).model_dump_json()
    return Variant(asking(draw, engine, corpus.question), corpus.question, corpus.shown(), answer)


def citations(draw: Variation) -> Variant:
    """An engine that numbers its sources for the model to cite."""
    corpus = Corpus(draw, 2)
    answer = f"{draw.sentence()} [1][2]"
    engine = CitationQueryEngine.from_args(
        corpus.index,
        llm=says(answer),
        retriever=corpus.retriever,
        text_splitter=SentenceSplitter(tokenizer=str.split),
    )
    contexts = [f"Source {n}:\n{text}\n" for n, text in enumerate(corpus.shown(), 1)]
    run = lambda: engine.query(corpus.question)  # noqa: E731
    return Variant(run, corpus.question, contexts, answer)


def rag_workflow(draw: Variation) -> Variant:
    """Retrieve, rerank by a model, synthesize: three steps, and a Response as the result."""
    corpus, question, answer = Corpus(draw, 3), draw.question(), answered(draw)
    nodes_at, asked_at = draw.name(), draw.name()
    found, ranked = event(draw, nodes_at), event(draw, nodes_at)
    keeps = draw.chance.randrange(3)
    ranker = LLMRerank(llm=says(f"Doc: {keeps + 1}, Relevance: 9"), top_n=1)
    corpus.question = question

    async def retrieve(ctx: Any, ev: Any) -> Any:
        await store(ctx).set(asked_at, ev.get(asked_at))
        nodes = await corpus.retriever.aretrieve(ev.get(asked_at))
        return found(**{nodes_at: nodes})

    async def rerank(ctx: Any, ev: Any) -> Any:
        asked = await store(ctx).get(asked_at)
        nodes = ranker.postprocess_nodes(getattr(ev, nodes_at), query_str=asked)
        return ranked(**{nodes_at: nodes})

    async def synthesize(ctx: Any, ev: Any) -> StopEvent:
        asked = await store(ctx).get(asked_at)
        writer = CompactAndRefine(llm=says(answer))
        return StopEvent(result=await writer.asynthesize(asked, nodes=getattr(ev, nodes_at)))

    async def run() -> None:
        made = flow(
            draw,
            (retrieve, StartEvent, found),
            (rerank, found, ranked),
            (synthesize, ranked, StopEvent),
        )
        await made.run(**{asked_at: question})

    return Variant(run, question, corpus.shown()[keeps : keeps + 1], answer)


async def passing(good: Sequence[str], texts: Sequence[str]) -> list[str]:
    """Texts that a grader lets pass."""
    grader = Scripted(reply=lambda m: str(any(text in prompt_text(m) for text in good)))
    told = [await grader.acomplete(f"Of use? {text}") for text in texts]
    return [text for text, one in zip(texts, told, strict=True) if one.text == "True"]


def corrective(draw: Variation) -> Variant:
    """Each passage is graded; the question is rewritten for a search beside the good ones.

    The answer is written from an index of both, or from a prompt where the search is named.
    """
    corpus, question, answer = Corpus(draw, 3), draw.question(), answered(draw)
    corpus.question = question
    shown, web = corpus.shown(), draw.passage()
    good = draw.chance.sample(shown, draw.chance.randint(1, 2))
    asked_at, texts_at, grade_at, hits_at = (draw.name() for _ in range(4))
    found, graded, searched = event(draw, texts_at), event(draw, grade_at), event(draw, hits_at)
    searching = FunctionTool.from_defaults(lambda query: web, name=draw.name(), description="x")
    rewritten, indexed = draw.question(), draw.chance.random() < 0.5

    async def retrieve(ctx: Any, ev: Any) -> Any:
        await store(ctx).set(asked_at, ev.get(asked_at))
        return found(**{texts_at: await corpus.retriever.aretrieve(ev.get(asked_at))})

    async def judge(ctx: Any, ev: Any) -> Any:
        texts = [node.get_content() for node in getattr(ev, texts_at)]
        return graded(**{grade_at: await passing(good, texts)})

    async def search(ctx: Any, ev: Any) -> Any:
        asked = await store(ctx).get(asked_at)
        query = await says(rewritten).acomplete(f"Rewrite: {asked}")
        hits = searching.call(query=query.text)
        return searched(**{hits_at: [*getattr(ev, grade_at), str(hits)]})

    async def write(ctx: Any, ev: Any) -> StopEvent:
        asked = await store(ctx).get(asked_at)
        texts = "\n\n".join(getattr(ev, hits_at))
        if indexed:
            index = SummaryIndex([TextNode(text=texts)])
            said = await index.as_query_engine(llm=says(answer)).aquery(asked)
            return StopEvent(result=str(said))
        written = await says(answer).acomplete(f"Use only:\n{texts}\nQuestion: {asked}")
        return StopEvent(result=written.text)

    async def run() -> None:
        made = flow(
            draw,
            (retrieve, StartEvent, found),
            (judge, found, graded),
            (search, graded, searched),
            (write, searched, StopEvent),
        )
        await made.run(**{asked_at: question})

    kept = [*(text for text in shown if text in good), web]
    contexts = ["\n\n".join(kept)] if indexed else kept
    options = {} if indexed else {"retrieval_tools": [searching.metadata.name]}
    return Variant(run, question, contexts, answer, options=options)


def divided_workflow(draw: Variation) -> Variant:
    """A model divides the question; each part goes to an engine, and another model combines."""
    question, answer, count = draw.question(), answered(draw), draw.chance.randint(2, 3)
    corpora = [Corpus(draw, 2) for _ in range(count)]
    answers = [answered(draw) for _ in corpora]
    asked_at, part_at, said_at = (draw.name() for _ in range(3))
    part, told = event(draw, part_at), event(draw, part_at, said_at)
    planner = says(json.dumps({"sub_questions": [corpus.question for corpus in corpora]}))
    engines = {
        corpus.question: corpus.engine(says(said))
        for corpus, said in zip(corpora, answers, strict=True)
    }

    async def divide(ctx: Any, ev: Any) -> Any:
        await store(ctx).set(asked_at, ev.get(asked_at))
        plan = await planner.acomplete(f"Divide: {ev.get(asked_at)}")
        for one in json.loads(plan.text)["sub_questions"]:
            ctx.send_event(part(**{part_at: one}))

    async def ask(ctx: Any, ev: Any) -> Any:
        asked = getattr(ev, part_at)
        said = await engines[asked].aquery(asked)
        return told(**{part_at: asked, said_at: str(said)})

    async def combine(ctx: Any, ev: Any) -> Any:
        ready = ctx.collect_events(ev, [told] * count)
        if ready is None:
            return None
        pairs = "\n".join(f"{getattr(r, part_at)}: {getattr(r, said_at)}" for r in ready)
        asked = await store(ctx).get(asked_at)
        said = await says(answer).acomplete(f"Combine for {asked}:\n{pairs}")
        return StopEvent(result=said.text)

    async def run() -> None:
        made = flow(
            draw,
            (divide, StartEvent, part | None),
            (ask, part, told),
            (combine, told, StopEvent | None),
            workers=3,
        )
        await made.run(**{asked_at: question})

    contexts = [text for corpus in corpora for text in corpus.shown()]
    return Variant(run, question, contexts, answer, any_order=True)


def numbered_workflow(draw: Variation) -> Variant:
    """Passages become numbered sources in one step, an answer with citations in the next."""
    corpus, question = Corpus(draw, 2), draw.question()
    answer, heading = f"{draw.sentence()} [1]", draw.name()
    nodes_at, asked_at = draw.name(), draw.name()
    found, numbered = event(draw, nodes_at), event(draw, nodes_at)
    corpus.question = question

    async def retrieve(ctx: Any, ev: Any) -> Any:
        await store(ctx).set(asked_at, ev.get(asked_at))
        return found(**{nodes_at: await corpus.retriever.aretrieve(ev.get(asked_at))})

    async def number(ctx: Any, ev: Any) -> Any:
        nodes = [
            NodeWithScore(node=TextNode(text=f"{heading} {n}:\n{one.get_content()}"))
            for n, one in enumerate(getattr(ev, nodes_at), 1)
        ]
        return numbered(**{nodes_at: nodes})

    async def cite(ctx: Any, ev: Any) -> StopEvent:
        asked = await store(ctx).get(asked_at)
        writer = CompactAndRefine(llm=says(answer))
        return StopEvent(result=await writer.asynthesize(asked, nodes=getattr(ev, nodes_at)))

    async def run() -> None:
        made = flow(
            draw,
            (retrieve, StartEvent, found),
            (number, found, numbered),
            (cite, numbered, StopEvent),
        )
        await made.run(**{asked_at: question})

    contexts = [f"{heading} {n}:\n{text}" for n, text in enumerate(corpus.shown(), 1)]
    return Variant(run, question, contexts, answer)


def own_agent(draw: Variation) -> Variant:
    """A function-calling agent written as a workflow: history, model, tools, until it answers."""
    corpora = [Corpus(draw, 2) for _ in range(2)]
    question, answer = draw.question(), answered(draw)
    tools = {
        one.metadata.name: one
        for one in (
            QueryEngineTool(
                query_engine=corpus.engine(says(answered(draw))),
                metadata=ToolMetadata(name=draw.name(), description=draw.name()),
            )
            for corpus in corpora
        )
    }
    calls = [pick(str(n), input=c.question) for n, c in zip(tools, corpora, strict=True)]
    model = in_turn(answer, *calls)
    asked_at, history_at, said_at = (draw.name() for _ in range(3))
    begun, picked = event(draw, history_at), event(draw, history_at)

    async def prepare(ctx: Any, ev: Any) -> Any:
        return begun(**{history_at: [ChatMessage(role="user", content=ev.get(asked_at))]})

    async def think(ctx: Any, ev: Any) -> Any:
        history = getattr(ev, history_at)
        said = await model.achat_with_tools(list(tools.values()), chat_history=history)
        if model.get_tool_calls_from_response(said, error_on_no_tool_call=False):
            return picked(**{history_at: [*history, said.message]})
        return StopEvent(result={said_at: said.message.content, draw.name(): len(history)})

    async def act(ctx: Any, ev: Any) -> Any:
        history = list(getattr(ev, history_at))
        for call in history[-1].additional_kwargs["tool_calls"]:
            output = tools[call["tool_name"]](**call["tool_kwargs"])
            history.append(ChatMessage(role=MessageRole.TOOL, content=str(output)))
        return begun(**{history_at: history})

    async def run() -> None:
        made = flow(
            draw,
            (prepare, StartEvent, begun),
            (think, begun, picked | StopEvent),
            (act, picked, begun),
        )
        await made.run(**{asked_at: question})

    contexts = [text for corpus in corpora for text in corpus.shown()]
    return Variant(run, question, contexts, answer)


TUTORIALS: dict[str, Callable[[Variation], Variant]] = {
    f"tutorial_{made.__name__}": made
    for made in (
        starter,
        router,
        chat_engine,
        structured,
        citations,
        rag_workflow,
        corrective,
        divided_workflow,
        numbered_workflow,
        own_agent,
    )
}
"""By name."""
