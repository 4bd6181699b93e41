"""Pipelines drawn by a seed: names, texts, languages, and answers of any length."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from llama_index.core import VectorStoreIndex
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.base.llms.types import ChatMessage, MessageRole
from llama_index.core.base.response.schema import Response
from llama_index.core.chat_engine.types import AgentChatResponse
from llama_index.core.evaluation import DatasetGenerator, FaithfulnessEvaluator
from llama_index.core.indices.document_summary import DocumentSummaryIndex
from llama_index.core.indices.prompt_helper import PromptHelper
from llama_index.core.instrumentation import get_dispatcher
from llama_index.core.query_engine import (
    CustomQueryEngine,
)
from llama_index.core.response_synthesizers import get_response_synthesizer
from llama_index.core.schema import Document, MetadataMode, NodeWithScore, TextNode
from llama_index.core.tools import FunctionTool, QueryEngineTool, ToolMetadata
from llama_index.core.workflow import Context

from tests.matrix.llama_index.kit import Bags, Scripted, pick
from tests.support.variation import Variation


@dataclass
class Variant:
    """One drawn pipeline."""

    run: Callable[[], Any]
    question: str = ""
    contexts: Sequence[str] = ()
    answer: str | None = None
    interactions: int = 1
    any_order: bool = False
    options: dict[str, Any] = field(default_factory=dict)


class Corpus:
    """Passages in an index, and the texts in which a model is shown them."""

    def __init__(self, draw: Variation, count: int = 3, *, metadata: bool = False) -> None:
        self.question = draw.question()
        self.nodes = [TextNode(text=text, id_=draw.name()) for text in draw.passages(count)]
        for node in self.nodes if metadata else ():
            node.metadata = {draw.name(): draw.short(), "year": draw.chance.randint(1900, 2030)}
        self.index = VectorStoreIndex(self.nodes, embed_model=Bags())

    @property
    def retriever(self) -> Any:
        return self.index.as_retriever(similarity_top_k=len(self.nodes))

    def shown(self) -> list[str]:
        found = self.retriever.retrieve(self.question)
        return [node.node.get_content(metadata_mode=MetadataMode.LLM) for node in found]

    def engine(self, model: Scripted, **more: Any) -> Any:
        return self.index.as_query_engine(llm=model, similarity_top_k=len(self.nodes), **more)


def answered(draw: Variation) -> str:
    """An answer of any length: a word, a number, a sentence, a passage."""
    return draw.chance.choice([draw.short, draw.word, draw.sentence, draw.passage])()


def says(*answers: str) -> Scripted:
    """A model that gives these answers in turn, the last one for ever."""
    left = list(answers)
    return Scripted(reply=lambda _: left.pop(0) if len(left) > 1 else left[0])


def asking(draw: Variation, engine: Any, question: str) -> Callable[[], Any]:
    if draw.chance.random() < 0.5:
        return lambda: engine.query(question)
    return lambda: engine.aquery(question)


def several_calls(draw: Variation) -> Variant:
    corpus = Corpus(draw, 6)
    answers = [answered(draw) for _ in range(12)]
    helper = PromptHelper(
        context_window=420, num_output=20, chunk_overlap_ratio=0.0, tokenizer=str.split
    )
    seen: list[str] = []

    def reply(messages: Sequence[ChatMessage]) -> str:
        seen.append(answers[min(len(seen), len(answers) - 1)])
        return seen[-1]

    engine = corpus.engine(Scripted(reply=reply), prompt_helper=helper)
    contexts = corpus.shown()

    def run() -> None:
        engine.query(corpus.question)

    made = Variant(run, corpus.question, contexts)
    # The last reply is the answer; how many there are depends on the lengths of the passages.
    made.answer = ""
    made.run = lambda: setattr(made, "answer", str(engine.query(corpus.question)))
    return made


def engine_tools(draw: Variation, models: Sequence[Scripted]) -> tuple[list[Corpus], list[Any]]:
    corpora = [Corpus(draw, 2) for _ in models]
    tools = [
        QueryEngineTool(
            query_engine=corpus.engine(model),
            metadata=ToolMetadata(name=draw.name(), description=draw.name()),
        )
        for corpus, model in zip(corpora, models, strict=True)
    ]
    return corpora, tools


def agent_of(model: Scripted, tools: Sequence[Any], question: str) -> Callable[[], Any]:

    async def run() -> None:
        await FunctionAgent(llm=model, tools=list(tools), streaming=False).run(user_msg=question)

    return run


def in_turn(answer: str, *calls: ChatMessage) -> Scripted:
    """A model that picks tools one after another, then answers."""

    def reply(messages: Sequence[ChatMessage]) -> ChatMessage | str:
        done = sum(message.role == MessageRole.TOOL for message in messages)
        return calls[done] if done < len(calls) else answer

    return Scripted(reply=reply)


def agent_with_two_engines(draw: Variation) -> Variant:
    """An agent whose two tools answer in a few words."""
    models = [says(answered(draw)), says(answered(draw))]
    corpora, tools = engine_tools(draw, models)
    question, answer = draw.question(), answered(draw)
    calls = [pick(t.metadata.name, input=c.question) for t, c in zip(tools, corpora, strict=True)]
    contexts = [text for corpus in corpora for text in corpus.shown()]
    run = agent_of(in_turn(answer, *calls), tools, question)
    return Variant(run, question, contexts, answer)


def plain_tool(draw: Variation) -> Variant:
    """A plain function as a tool: around an engine, around a retriever, or a search of its own."""
    corpus = Corpus(draw, 2)
    question, answer, name = draw.question(), draw.sentence(), draw.name()
    kind = draw.chance.choice(["engine", "retriever", "texts", "rows", "text"])
    engine, texts = corpus.engine(says(draw.sentence())), corpus.shown()

    def search(query: str) -> Any:
        if kind == "engine":
            return str(engine.query(query))
        if kind == "retriever":
            return "\n\n".join(n.get_content() for n in corpus.retriever.retrieve(query))
        if kind == "rows":
            return [{draw.name(): n, "text": text} for n, text in enumerate(texts)]
        return texts if kind == "texts" else texts[0]

    tool = FunctionTool.from_defaults(search, name=name, description="Searches.")
    model = in_turn(answer, pick(name, query=corpus.question))
    contexts = texts[:1] if kind == "text" else texts
    return Variant(agent_of(model, [tool], question), question, contexts, answer)


def own_function(draw: Variation) -> Variant:
    """A function under LlamaIndex's span decorator that gives out a pair."""
    corpus = Corpus(draw, 2)
    question, answer = draw.question(), draw.sentence()
    model, dispatcher = says(answer), get_dispatcher(__name__)

    @dispatcher.span
    def ask(topic: str) -> Any:
        nodes = corpus.retriever.retrieve(corpus.question)
        texts = "\n".join(node.get_content() for node in nodes)
        return model.complete(f"{texts}\n{topic}").text, nodes

    return Variant(lambda: ask(question), question, corpus.shown(), answer)


def parsed_reply(draw: Variation) -> Variant:
    """A function gives out what it read from the model's reply, and all that led to it.

    The model was shown passages, or what an engine answered.
    """
    corpus = Corpus(draw, 2)
    engine = corpus.engine(says(answered(draw))) if draw.chance.random() < 0.5 else None
    answer, dispatcher = answered(draw), get_dispatcher(__name__)
    label = draw.chance.choice([f"{draw.name()}: ", f"**{draw.name()}:** ", "</think>\n"])
    reply = f"{draw.sentence()}\n{label}{answer}"

    @dispatcher.span
    def ask(topic: str) -> Any:
        if engine is None:
            texts = [node.get_content() for node in corpus.retriever.retrieve(topic)]
        else:
            texts = [f"{draw.name()}: {engine.query(topic)}"]
        said = says(reply).complete("\n".join([*texts, topic])).text
        return {draw.name(): [*texts, said], draw.name(): said.partition(label)[2]}

    return Variant(lambda: ask(corpus.question), corpus.question, corpus.shown(), answer)


class _Rows(CustomQueryEngine):
    made: Any

    def custom_query(self, query_str: str) -> Any:
        return self.made(query_str)


def rows_of_a_table(draw: Variation) -> Variant:
    """A schema is retrieved on the way; the answer names rows as its sources."""
    corpus, rows = Corpus(draw, 2), draw.passages(2)
    answer = answered(draw)
    model = says(answer)

    def ask(question: str) -> Response:
        corpus.retriever.retrieve(question)
        said = model.complete("Rows:\n" + "\n".join(rows) + f"\n{question}").text
        return Response(said, [NodeWithScore(node=TextNode(text=row)) for row in rows])

    engine = _Rows(made=ask)
    return Variant(lambda: engine.query(corpus.question), corpus.question, rows, answer)


def wrapped_sources(draw: Variation) -> Variant:
    """A source is a prompt around one passage, and the model is none of LlamaIndex's."""
    corpus = Corpus(draw, 1)
    answer, heading = answered(draw), draw.name()

    def ask(question: str) -> Response:
        (found,) = corpus.retriever.retrieve(question)
        text = f"### {heading}: {question}\n<{heading}>{found.get_content()}</{heading}>"
        return Response(answer, [NodeWithScore(node=TextNode(text=text, id_="0"))])

    engine = _Rows(made=ask)
    return Variant(lambda: engine.query(corpus.question), corpus.question, corpus.shown(), answer)


def answer_that_is_no_text(draw: Variation) -> Variant:
    """A response whose text is a response, a chat's response, a message or a number."""
    corpus = Corpus(draw, 2)
    number = draw.chance.randint(2, 999)
    inner = draw.chance.choice(
        [
            number,
            Response(response=str(number)),
            AgentChatResponse(response=str(number)),
            ChatMessage(role="assistant", content=str(number)),
            {"answer": number},
        ]
    )

    def ask(question: str) -> AgentChatResponse:
        nodes = corpus.retriever.retrieve(question)
        made = AgentChatResponse(response="", source_nodes=nodes)
        made.response = inner  # type: ignore[assignment]
        return made

    dispatcher = get_dispatcher(__name__)
    asked = dispatcher.span(ask)
    question = corpus.question
    return Variant(lambda: asked(question), question, corpus.shown(), str(number))


def building(draw: Variation) -> Variant:
    """Building an index or a data set, and judging answers, are no questions of users."""
    corpus, model = Corpus(draw, 2), says(draw.sentence())
    documents = [Document(text=node.text) for node in corpus.nodes]
    nodes = [NodeWithScore(node=node, score=1.0) for node in corpus.nodes]
    synthesizer = get_response_synthesizer(llm=model, response_mode="tree_summarize")  # type: ignore[arg-type]
    makers: list[Callable[[], Any]] = [
        lambda: synthesizer.synthesize(draw.question(), nodes),
        lambda: synthesizer.asynthesize(draw.question(), nodes),
        lambda: DocumentSummaryIndex.from_documents(
            documents,
            llm=model,
            embed_model=Bags(),
            response_synthesizer=synthesizer,
            summary_query=draw.question(),
        ),
        lambda: DatasetGenerator(list(corpus.nodes), llm=model).agenerate_questions_from_nodes(),
        lambda: FaithfulnessEvaluator(llm=model).aevaluate(
            response=draw.sentence(), contexts=draw.passages(2)
        ),
        lambda: FaithfulnessEvaluator(llm=model).evaluate(
            response=draw.sentence(), contexts=draw.passages(2)
        ),
    ]
    return Variant(draw.chance.choice(makers), interactions=0)


def by_hand(draw: Variation) -> Variant:
    """A retriever and a synthesizer that the application calls one after the other."""
    corpus, answer = Corpus(draw, 2), answered(draw)
    synthesizer = get_response_synthesizer(llm=says(answer))

    def run() -> None:
        nodes = corpus.retriever.retrieve(corpus.question)
        synthesizer.synthesize(corpus.question, nodes)

    return Variant(run, corpus.question, corpus.shown(), answer)


def chosen_by_options(draw: Variation) -> Variant:
    """Question, contexts and answer that `enable` was told to take, by names or functions."""
    corpus, given = Corpus(draw, 2), draw.passages(2)
    question, answer = draw.question(), answered(draw)
    asked, shown, said = draw.name(), draw.name(), draw.name()
    dispatcher = get_dispatcher(__name__)

    @dispatcher.span
    def ask(query: str, **more: str) -> dict[str, Any]:
        corpus.retriever.retrieve(query)
        return {"answer": draw.sentence(), said: answer, shown: given}

    options: dict[str, Any] = {"question": asked, "contexts": shown, "answer": said}
    if draw.chance.random() < 0.5:
        options = {
            "question": lambda arguments: arguments["more"][asked],
            "contexts": lambda result: result[shown] if isinstance(result, dict) else None,
            "answer": lambda result: result[said],
        }
    run = lambda: ask(draw.question(), **{asked: question})  # noqa: E731
    return Variant(run, question, given, answer, options=options)


def sums_and_searches(draw: Variation) -> Variant:
    """An agent that reckons in its first turn and asks an engine in its second, as in tutorials."""
    corpus = Corpus(draw, 2)
    question, answer, name = draw.question(), answered(draw), draw.name()
    factors = [draw.chance.randint(2, 99) for _ in range(2)]
    engine = corpus.engine(says(draw.sentence()))

    async def search(query: str) -> str:
        return str(await engine.aquery(query))

    def times(a: int, b: int) -> int:
        return a * b

    tools = [
        FunctionTool.from_defaults(async_fn=search, name=name, description=draw.name()),
        FunctionTool.from_defaults(times, name="times", description=draw.name()),
    ]

    def reply(messages: Sequence[ChatMessage]) -> ChatMessage | str:
        asked = max(n for n, one in enumerate(messages) if one.role == MessageRole.USER)
        if any(message.role == MessageRole.TOOL for message in messages[asked:]):
            return answer
        if messages[asked].content == question:
            return pick(name, query=corpus.question)
        return pick("times", a=factors[0], b=factors[1])

    agent = FunctionAgent(tools=tools, llm=Scripted(reply=reply), streaming=False)

    async def run() -> None:
        context = Context(agent)
        with warnings.catch_warnings():
            # LlamaIndex warns of what it keeps of a context itself.
            warnings.simplefilter("ignore")
            await agent.run(user_msg=f"{factors[0]} * {factors[1]}?", ctx=context)
            await agent.run(user_msg=question, ctx=context)

    return Variant(run, question, corpus.shown(), answer)


VARIANTS = (
    several_calls,
    agent_with_two_engines,
    plain_tool,
    own_function,
    parsed_reply,
    rows_of_a_table,
    wrapped_sources,
    answer_that_is_no_text,
    building,
    by_hand,
    chosen_by_options,
    sums_and_searches,
)
