"""Query engines, in all response modes, and engines that ask others."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from llama_index.core import SQLDatabase
from llama_index.core.base.base_selector import BaseSelector, MultiSelection, SingleSelection
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.base.response.schema import Response
from llama_index.core.chat_engine.types import AgentChatResponse
from llama_index.core.indices.prompt_helper import PromptHelper
from llama_index.core.instrumentation import get_dispatcher
from llama_index.core.query_engine import (
    CustomQueryEngine,
    NLSQLTableQueryEngine,
    RouterQueryEngine,
    SubQuestionQueryEngine,
)
from llama_index.core.question_gen.types import BaseQuestionGenerator, SubQuestion
from llama_index.core.response_synthesizers import TreeSummarize, get_response_synthesizer
from llama_index.core.schema import NodeWithScore, TextNode
from pydantic import create_model

from tests.matrix.llama_index.kit import (
    QUERY_SPANS,
    READ_WAYS,
    WAYS,
    Asked,
    Bags,
    Corpus,
    Draw,
    Scripted,
    pick,
    says,
    shape,
    words,
)

GROUP = "query engines"


class NoPrompts:
    def _get_prompts(self) -> dict[str, Any]:
        return {}

    def _update_prompts(self, prompts: Any) -> None:
        pass


def in_mode(mode: str, calls: int = 1, ways: Sequence[str] = READ_WAYS) -> None:

    def asked(draw: Draw) -> Asked:
        corpus, answers = Corpus(draw), [draw.answer() for _ in range(calls)]
        engine = corpus.engine(says(*answers), response_mode=mode, streaming=draw.streaming)
        # Of several sources LlamaIndex decides the order in which it asks.
        written = {
            "accumulate": lambda: "\n---------------------\n".join(
                f"Response {n}: {text}" for n, text in enumerate(answers, 1)
            ),
            "compact_accumulate": lambda: f"Response 1: {answers[0]}",
            "no_text": lambda: "",
        }
        answer = written.get(mode, lambda: answers[-1])
        spans = (*["chat scripted"] * calls, *QUERY_SPANS[1:])
        return corpus.asked(engine, answer, spans=spans)

    shape(GROUP, *ways, name=mode)(asked)


in_mode("refine", calls=2)
in_mode("tree_summarize")
in_mode("accumulate", calls=2, ways=("query",))
in_mode("no_text", calls=0, ways=WAYS)


def room_for(texts: Sequence[str], count: float, question: str) -> PromptHelper:
    """Room in a prompt for so many of the texts, whatever their language."""
    needed = len(words(question)) + count * max(len(words(text)) for text in texts)
    return PromptHelper(
        context_window=round(needed) + 200, num_output=8, chunk_overlap_ratio=0.0, tokenizer=words
    )


@shape(GROUP, *READ_WAYS)
def more_passages_than_a_sample_holds(draw: Draw) -> Asked:
    """The best ranked stay, in however many prompts they are shown; the answer names none."""
    corpus, answer = Corpus(draw, draw.chance.randint(51, 150)), draw.name()
    engine = corpus.engine(says(answer), streaming=draw.streaming)
    return corpus.asked(engine, answer, contexts=corpus.shown()[:50])


@shape(GROUP, *READ_WAYS)
def tree_summarize_of_divided_nodes(draw: Draw) -> Asked:
    """Some nodes begin in one prompt and end in another; the last call joins the answers."""
    corpus, said = Corpus(draw, 6), list[str]()

    def reply(messages: Sequence[ChatMessage]) -> str:
        said.append(draw.sentence())
        return said[-1]

    synthesizer = TreeSummarize(
        llm=Scripted(reply=reply),
        prompt_helper=room_for(corpus.shown(), 1.7, corpus.question),
        streaming=draw.streaming,
    )
    engine = corpus.engine(None, response_synthesizer=synthesizer)
    return corpus.asked(engine, lambda: said[-1])


@shape(GROUP, *WAYS)
def output_class(draw: Draw) -> Asked:
    keys = (draw.chance.choice(["answer", draw.name()]), draw.name())
    corpus, filled = Corpus(draw), {key: draw.short() for key in keys}
    name = draw.name().title()
    fields: dict[str, Any] = dict.fromkeys(filled, (str, ...))
    form: Any = create_model(name, **fields)
    engine = corpus.engine(Scripted(reply=lambda _: pick(name, **filled)), output_cls=form)
    spans = ("chat scripted", f"execute_tool {name}", *QUERY_SPANS[1:])
    answer = filled.get("answer") or form(**filled).model_dump_json()
    return corpus.asked(engine, answer, spans=spans)


# Engines that ask others.


class Everything(NoPrompts, BaseSelector):
    def _select(self, choices: Any, query: Any) -> MultiSelection:
        found = [SingleSelection(index=n, reason="") for n in range(len(choices))]
        return MultiSelection(selections=found)

    async def _aselect(self, choices: Any, query: Any) -> MultiSelection:
        return self._select(choices, query)


class Divided(NoPrompts, BaseQuestionGenerator):
    def __init__(self, questions: list[SubQuestion]) -> None:
        self.questions = questions

    def generate(self, tools: Any, query: Any) -> list[SubQuestion]:
        return self.questions

    async def agenerate(self, tools: Any, query: Any) -> list[SubQuestion]:
        return self.questions


def corpora_with_tools(draw: Draw, count: int) -> tuple[list[Corpus], list[Any], list[str]]:
    corpora = [Corpus(draw) for _ in range(count)]
    tools = [corpus.tool(draw.answer()) for corpus in corpora]
    return corpora, tools, [text for corpus in corpora for text in corpus.shown()]


@shape(GROUP, "query", "stream")
def router_to_all(draw: Draw) -> Asked:
    _, tools, shown = corpora_with_tools(draw, 2)
    question, answer = draw.question(), draw.answer()
    engine = RouterQueryEngine.from_defaults(
        tools,
        llm=says(answer),
        selector=Everything(),
        summarizer=TreeSummarize(llm=says(answer), streaming=draw.streaming),
    )
    return Asked(draw.call(engine, question), question, shown, answer, any_order=True)


def divided(draw: Draw, tools: Sequence[Any], corpora: Sequence[Corpus], llm: Any) -> Any:
    asked = [
        SubQuestion(sub_question=corpus.question, tool_name=tool.metadata.name)
        for tool, corpus in zip(tools, corpora, strict=True)
    ]
    at_once = draw.way == "aquery"
    return SubQuestionQueryEngine.from_defaults(
        list(tools),
        llm=llm,
        question_gen=Divided(asked),
        response_synthesizer=get_response_synthesizer(
            llm=llm, use_async=at_once, streaming=draw.streaming
        ),
        use_async=at_once,
        verbose=False,
    )


@shape(GROUP, *WAYS)
def sub_questions_of_which_one_fails(draw: Draw) -> Asked:
    corpora, tools, _ = corpora_with_tools(draw, 2)
    question, answer = draw.question(), draw.answer()

    def fail(messages: Sequence[ChatMessage]) -> str:
        raise ValueError("no answer")

    tools[1].query_engine._response_synthesizer._llm = Scripted(reply=fail)
    engine = divided(draw, tools, corpora, says(answer))
    return Asked(draw.call(engine, question), question, corpora[0].shown(), answer)


# Engines and functions of the user's own.


class Own(CustomQueryEngine):
    made: Any

    def custom_query(self, query_str: str) -> Any:
        return self.made(query_str)


@shape(GROUP)
def rows_of_a_table(draw: Draw) -> Asked:
    """A schema is retrieved on the way; the answer names rows as its sources."""
    corpus, rows, answer = Corpus(draw), draw.passages(2), draw.answer()

    def ask(question: str) -> Response:
        corpus.retriever.retrieve(question)
        said = says(answer).complete("\n".join(["Rows:", *rows, question])).text
        return Response(said, [NodeWithScore(node=TextNode(text=row)) for row in rows])

    return corpus.asked(Own(made=ask), answer, contexts=rows)


@shape(GROUP, missing=None if find_spec("sqlalchemy") else "sqlalchemy is not installed")
def query_of_a_database(draw: Draw) -> Asked:
    """The rows are the context, however short they are; the statement is a model's."""
    sql = import_module("sqlalchemy")
    table, column, question = draw.name(), draw.name(), draw.question()
    counts = [draw.chance.randint(1, 9999) for _ in range(draw.chance.randint(1, 3))]
    base = sql.create_engine("sqlite://", poolclass=sql.pool.StaticPool)
    with base.begin() as connection:
        connection.execute(sql.text(f"create table {table}({column} int)"))
        for count in counts:
            connection.execute(sql.text(f"insert into {table} values ({count})"))
    statement = f"SELECT DISTINCT {column} FROM {table} ORDER BY {column}"
    engine = NLSQLTableQueryEngine(
        SQLDatabase(base), tables=[table], llm=says(statement, str(counts[0])), embed_model=Bags()
    )
    rows = str([(count,) for count in sorted(set(counts))])
    return Asked(lambda: engine.query(question), question, [rows], str(counts[0]))


@shape(GROUP)
def sources_wrapped_in_prompts(draw: Draw) -> Asked:
    """A source is a prompt around one passage, and the model is none of LlamaIndex's."""
    corpus, answer, heading = Corpus(draw, 1), draw.answer(), draw.name()

    def ask(question: str) -> Response:
        (found,) = corpus.retriever.retrieve(question)
        text = f"### {heading}: {question}\n<{heading}>{found.get_content()}</{heading}>"
        return Response(answer, [NodeWithScore(node=TextNode(text=text, id_="0"))])

    return corpus.asked(Own(made=ask), answer)


def spanned(function: Any) -> Any:
    return get_dispatcher(__name__).span(function)


@shape(GROUP)
def answer_that_is_no_text(draw: Draw) -> Asked:
    corpus, number = Corpus(draw), draw.chance.randint(2, 999)
    inner = draw.one_of(
        number,
        Response(response=str(number)),
        AgentChatResponse(response=str(number)),
        ChatMessage(role="assistant", content=str(number)),
        {"answer": number},
    )

    def ask(question: str) -> AgentChatResponse:
        nodes = corpus.retriever.retrieve(question)
        made = AgentChatResponse(response="", source_nodes=nodes)
        made.response = inner
        return made

    return Asked(
        lambda: spanned(ask)(corpus.question), corpus.question, corpus.shown(), str(number)
    )


@shape(GROUP)
def chosen_by_options(draw: Draw) -> Asked:
    """Question, contexts and answer that `enable` was told to take, by names or functions."""
    corpus, given = Corpus(draw), draw.passages(2)
    question, answer = draw.question(), draw.answer()
    asked, shown, said = draw.name(), draw.name(), draw.name()

    def ask(query: str, **more: str) -> dict[str, Any]:
        corpus.retriever.retrieve(query)
        return {"answer": draw.sentence(), said: answer, shown: given}

    by_name = {"question": asked, "contexts": shown, "answer": said}
    by_function = {
        "question": lambda arguments: arguments["more"][asked],
        "contexts": lambda result: result[shown] if isinstance(result, dict) else None,
        "answer": lambda result: result[said],
    }
    return Asked(
        lambda: spanned(ask)(draw.question(), **{asked: question}),
        question,
        given,
        answer,
        options=draw.one_of(by_name, by_function),
    )
