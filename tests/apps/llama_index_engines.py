"""Engines, agents and packs of LlamaIndex, on a core that packs can still be installed with."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, ClassVar

from llama_index.core import (
    Document,
    Settings,
    SQLDatabase,
    StorageContext,
    VectorStoreIndex,
    get_response_synthesizer,
)
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.base.response.schema import Response
from llama_index.core.chat_engine.types import AgentChatResponse, BaseChatEngine
from llama_index.core.indices.struct_store import SQLTableRetrieverQueryEngine
from llama_index.core.objects import ObjectIndex, SQLTableNodeMapping, SQLTableSchema
from llama_index.core.postprocessor import PIINodePostprocessor
from llama_index.core.query_engine import (
    RetrieverQueryEngine,
    SubQuestionQueryEngine,
)
from llama_index.core.question_gen.types import SubQuestion
from llama_index.core.response_synthesizers import ResponseMode
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
from llama_index.core.tools import QueryEngineTool
from llama_index.core.vector_stores import SimpleVectorStore, VectorStoreQuery
from llama_index.core.vector_stores.types import VectorStoreQueryMode
from sqlalchemy import Column, Integer, MetaData, String, Table, create_engine, insert

from tests.apps.llama_index_kit import Asked, app, best, model, over, steps
from tests.apps.texts import Texts
from tests.matrix.llama_index.kit import (
    Bags,
    Scripted,
    pick,
    prompt_text,
)
from tests.matrix.shape import Shape

SHORT = "short intermediate answers"


def mode(name: str) -> Callable[[Texts], Asked]:
    """A response mode in which an answer of a few characters is worked on."""

    def make(texts: Texts) -> Asked:
        question = texts.question(0)
        sheets = best(texts, question)
        chat = model((sheets[-1], texts.answer(0)), default=texts.short(0))
        engine = over(texts).as_query_engine(llm=chat, response_mode=name, similarity_top_k=2)
        answer = texts.answer(0)
        if name == "accumulate":
            parts = [texts.short(0), texts.answer(0)]
            answer = "\n---------------------\n".join(
                f"Response {n}: {part}" for n, part in enumerate(parts, 1)
            )
        return Asked(engine, question, sheets, answer)

    return make


def sub_questions(texts: Texts) -> Asked:
    """A question in two parts, of which one is answered in a few characters."""
    question, answer = texts.question(1, 2), f"{texts.answer(1)} {texts.answer(2)}"
    parts = [texts.question(1), texts.question(2)]

    class Generator:
        def generate(self, tools: Any, query: QueryBundle) -> list[SubQuestion]:
            return [SubQuestion(sub_question=part, tool_name="sheets") for part in parts]

        async def agenerate(self, tools: Any, query: QueryBundle) -> list[SubQuestion]:
            return self.generate(tools, query)

    chat = model(("Sub question:", answer), (parts[0], texts.short(1)), default=texts.answer(2))
    one = over(texts).as_query_engine(llm=chat, similarity_top_k=1)
    tool = QueryEngineTool.from_defaults(one, name="sheets", description="Knows the sheets.")
    engine = SubQuestionQueryEngine(
        question_gen=Generator(),  # type: ignore[arg-type]
        response_synthesizer=get_response_synthesizer(llm=chat),
        query_engine_tools=[tool],
        use_async=False,
        verbose=False,
    )
    shown = [sheet for part in parts for sheet in best(texts, part, 1)]
    return Asked(engine, question, shown, answer)


def two_tools(texts: Texts) -> Asked:
    """An agent that asks two engines, of which one answers in a few characters."""
    question, answer = texts.question(3, 4), f"{texts.answer(3)} {texts.answer(4)}"
    parts = {"first": (texts.question(3), texts.short(3))}
    parts["second"] = (texts.question(4), texts.answer(4))
    tools = [
        QueryEngineTool.from_defaults(
            over(texts).as_query_engine(llm=model(default=said), similarity_top_k=1),
            name=name,
            description="Knows the sheets.",
        )
        for name, (_, said) in parts.items()
    ]
    calls = [pick(name, input=asked) for name, (asked, _) in parts.items()]
    agent = FunctionAgent(tools=tools, llm=steps(*calls, answer))
    shown = [sheet for asked, _ in parts.values() for sheet in best(texts, asked, 1)]
    return Asked(agent, question, shown, answer)


def masked(texts: Texts) -> Asked:
    """A postprocessor whose model masks what the answering model is shown."""
    question, answer = texts.question(6), texts.answer(6)
    hidden = texts.sheets[6].replace(texts.names[6].split()[-1], "[PLACE_1]")
    masker = model(default=f'{hidden}\nOutput Mapping:\n{{"PLACE_1": "x"}}')
    engine = over(texts).as_query_engine(
        llm=model(default=answer),
        similarity_top_k=1,
        node_postprocessors=[PIINodePostprocessor(llm=masker)],
    )
    return Asked(engine, question, [hidden], answer)


def rows(texts: Texts) -> Asked:
    """Rows that are found by a retrieved table schema, and named by the response."""
    question, answer = texts.question(7), texts.answer(7)
    database = create_engine("sqlite://")
    meta = MetaData()
    things = Table("things", meta, Column("name", String), Column("figure", Integer))
    meta.create_all(database)
    with database.begin() as connection:
        connection.execute(insert(things).values(name=texts.names[7], figure=texts.numbers[7]))
    sql = SQLDatabase(database)
    schemas = ObjectIndex.from_objects(
        [SQLTableSchema(table_name="things")],
        SQLTableNodeMapping(sql),
        index_cls=VectorStoreIndex,
        embed_model=Bags(),
    )
    chat = model(("Response: ", answer), default="SELECT name, figure FROM things")
    engine = SQLTableRetrieverQueryEngine(sql, schemas.as_retriever(similarity_top_k=1), llm=chat)
    return Asked(engine, question, [str([(texts.names[7], texts.numbers[7])])], answer)


def nested(texts: Texts) -> Asked:
    """An engine whose answer wraps the response of another one."""
    question, answer = texts.question(0), texts.answer(0)
    inner = over(texts).as_query_engine(llm=model(default=answer), similarity_top_k=2)

    class Wrapping(BaseChatEngine):
        chat_history: ClassVar[list[ChatMessage]] = []

        def reset(self) -> None: ...

        def chat(self, message: str, chat_history: Any = None) -> Any:
            said: Any = inner.query(message)
            return AgentChatResponse(response=said, source_nodes=said.source_nodes)

        async def achat(self, message: str, chat_history: Any = None) -> Any:
            return self.chat(message)

        def stream_chat(self, message: str, chat_history: Any = None) -> Any:
            raise NotImplementedError

        async def astream_chat(self, message: str, chat_history: Any = None) -> Any:
            raise NotImplementedError

    return Asked(Wrapping(), question, best(texts, question), answer)


def building(texts: Texts) -> Asked:
    """A summary over nodes of the caller's own, as indexes make them when they are built."""

    def build() -> None:
        synthesizer = get_response_synthesizer(
            llm=model(default=texts.answer(1)), response_mode=ResponseMode.TREE_SUMMARIZE
        )
        nodes = [NodeWithScore(node=TextNode(text=sheet)) for sheet in texts.sheets[:3]]
        assert isinstance(synthesizer.synthesize("Summarize the text.", nodes), Response)

    return Asked(build, None)


def self_rag(texts: Texts) -> Asked:
    """The pack whose source nodes are the prompts of its own model."""
    question, answer = texts.question(2), texts.answer(2)
    fake = ModuleType("llama_cpp")

    class Llama:
        def __init__(self, **_: Any) -> None: ...

        def __call__(self, prompt: str, **_: Any) -> dict[str, Any]:
            said = answer if "<paragraph>" in prompt else "[Retrieval]"
            scores = {"[Relevant]": -0.1, "[Irrelevant]": -2.0}
            return {
                "choices": [{"text": said, "logprobs": {"tokens": [], "top_logprobs": [scores]}}]
            }

    fake.Llama = Llama  # type: ignore[attr-defined]
    sys.modules["llama_cpp"] = fake
    from llama_index.packs.self_rag import SelfRAGPack

    retriever = over(texts).as_retriever(similarity_top_k=2)
    pack = SelfRAGPack("none", retriever)
    return Asked(pack.get_modules()["query_engine"], question, best(texts, question), answer)


def auto_merging(texts: Texts) -> Asked:
    """The pack over one document a sheet."""
    from llama_index.packs.auto_merging_retriever import AutoMergingRetrieverPack

    question, answer = texts.question(3), texts.answer(3)
    prompts: list[str] = []

    def reply(messages: Sequence[ChatMessage]) -> str:
        prompts.append(prompt_text(messages))
        return answer

    Settings.llm, Settings.embed_model = Scripted(reply=reply), Bags()
    pack = AutoMergingRetrieverPack([Document(text=sheet) for sheet in texts.sheets])
    engine: Any = pack.get_modules()["query_engine"]
    return Asked(engine, question, lambda: texts.within(prompts[-1]), answer)


def koda(texts: Texts) -> Asked:
    """The pack whose retriever asks a model which kind of question it is."""
    from llama_index.packs.koda_retriever import KodaRetriever

    question, answer = texts.question(4), texts.answer(4)

    class Store(SimpleVectorStore):
        def query(self, query: VectorStoreQuery, **kwargs: Any) -> Any:
            query.mode = VectorStoreQueryMode.DEFAULT  # in memory there is no hybrid search
            return super().query(query, **kwargs)

    context = StorageContext.from_defaults(vector_store=Store())
    nodes = [TextNode(text=sheet) for sheet in texts.sheets]
    own = VectorStoreIndex(nodes, storage_context=context, embed_model=Bags())
    retriever = KodaRetriever(
        index=own, llm=model(default="concept seeking query"), similarity_top_k=2
    )
    engine = RetrieverQueryEngine.from_args(retriever, llm=model(default=answer))
    return Asked(engine, question, best(texts, question), answer)


def shapes(seed: int) -> list[Shape]:
    """All engines, agents and packs."""
    both, chats = ("query", "aquery"), ("chat", "achat")
    return [
        app(SHORT, "refine", mode("refine"), seed, both),
        app(SHORT, "accumulate", mode("accumulate"), seed, both),
        app(SHORT, "SubQuestionQueryEngine", sub_questions, seed, ("query",)),
        app(SHORT, "FunctionAgent, two engines", two_tools, seed, ("run",)),
        app("text that a postprocessor rewrites", "PIINodePostprocessor", masked, seed, both),
        app("rows", "SQLTableRetrieverQueryEngine", rows, seed, both),
        app("answer that is no text", "chat response around a response", nested, seed, chats),
        app("no question", "summary of nodes of the caller", building, seed, ("build",)),
        app("packs", "llama-index-packs-self-rag", self_rag, seed, both),
        app("packs", "llama-index-packs-auto-merging-retriever", auto_merging, seed, both),
        app("packs", "llama-index-packs-koda-retriever", koda, seed, both),
    ]
