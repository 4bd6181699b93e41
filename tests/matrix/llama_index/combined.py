"""Query engines made of others: retries, routers, sub-questions, structured output."""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

from llama_index.core import VectorStoreIndex
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.evaluation import RelevancyEvaluator
from llama_index.core.indices.query.query_transform import StepDecomposeQueryTransform
from llama_index.core.objects import ObjectIndex
from llama_index.core.query_engine import (
    FLAREInstructQueryEngine,
    MultiStepQueryEngine,
    RetryQueryEngine,
    RouterQueryEngine,
    SubQuestionQueryEngine,
    ToolRetrieverRouterQueryEngine,
)
from llama_index.core.question_gen import LLMQuestionGenerator
from llama_index.core.response_synthesizers import TreeSummarize, get_response_synthesizer
from llama_index.core.selectors import LLMMultiSelector
from llama_index.core.tools import QueryEngineTool
from pydantic import create_model

from tests.matrix.llama_index import kit
from tests.matrix.llama_index.engines import joined

GROUP = "query engines"
NO_ASYNC = None if find_spec("workflows") else "this version starts a loop within the loop"
ANSWERS = {question: kit.answer_to(question, kit.top(question)) for question in kit.QUESTIONS}
STEPPED = kit.told("At 07:40, for 310 crowns.")
LEAVES = kit.told("The ferry leaves at 07:40.")
COMBINED = kit.told("Both of them say that there are two passages.")


FILLED = {kit.NAMED.name(): kit.told("07:40"), kit.NAMED.name(): kit.told("north")}
FORM_NAME = kit.NAMED.name().title()
FORM: Any = create_model(FORM_NAME, **dict.fromkeys(FILLED, (str, ...)))  # type: ignore[call-overload]
FILLED_IN = FORM(**FILLED).model_dump_json()


def says(text: str) -> kit.Scripted:
    return kit.Scripted(reply=lambda _: text)


def engine(llm: Any = None, **more: Any) -> Any:
    return kit.index().as_query_engine(llm=llm or kit.reader(), similarity_top_k=2, **more)


def tool(name: str, llm: Any = None) -> QueryEngineTool:
    return QueryEngineTool.from_defaults(engine(llm), name=name, description=kit.WORDS("Knows it."))


def structured() -> Any:
    llm = kit.Scripted(reply=lambda _: kit.pick(FORM_NAME, **FILLED))
    return engine(llm, output_cls=FORM)


def retry(passes: bool) -> Any:
    """Asked again, with the bad answer, until the evaluator is content or tired."""
    evaluator = RelevancyEvaluator(llm=says("YES" if passes else "NO"))
    return RetryQueryEngine(engine(), evaluator, max_retries=1)


def router(streaming: bool) -> Any:
    chosen = json.dumps([{"choice": n, "reason": kit.WORDS("it fits")} for n in (1, 2)])
    return RouterQueryEngine.from_defaults(
        [tool(kit.FERRIES), tool(kit.TICKETS)],
        llm=kit.reader(),
        selector=LLMMultiSelector.from_defaults(llm=says(chosen)),
        summarizer=TreeSummarize(llm=says(COMBINED), streaming=streaming),
    )


def tool_retriever() -> Any:
    tools = ObjectIndex.from_objects(
        [tool(kit.FERRIES), tool(kit.TICKETS)], index_cls=VectorStoreIndex, embed_model=kit.Bags()
    )
    return ToolRetrieverRouterQueryEngine(
        tools.as_retriever(similarity_top_k=2),
        llm=kit.reader(),
        summarizer=TreeSummarize(llm=says(COMBINED)),
    )


def sub_questions(failing: bool = False) -> Any:
    """Two questions for one, asked at once; one may fail."""
    asked = [{"sub_question": text, "tool_name": kit.FERRIES} for text in kit.QUESTIONS]
    read = kit.reader().reply

    def reply(messages: Sequence[ChatMessage]) -> Any:
        if failing and kit.QUESTIONS[1] in kit.prompt_text(messages):
            raise ValueError("no answer")
        return read(messages)

    def join(messages: Sequence[ChatMessage]) -> str:
        prompt = kit.prompt_text(messages)
        return joined(f"{q}\nResponse: {answer}" in prompt for q, answer in ANSWERS.items())

    generator = says("```json\n" + json.dumps({"items": asked}) + "\n```")
    return SubQuestionQueryEngine.from_defaults(
        [tool(kit.FERRIES, kit.Scripted(reply=reply))],
        llm=kit.reader(),
        question_gen=LLMQuestionGenerator.from_defaults(llm=generator),
        response_synthesizer=get_response_synthesizer(llm=kit.Scripted(reply=join), use_async=True),
        use_async=True,
        verbose=False,
    )


def two_steps() -> Any:
    steps = iter([*kit.QUESTIONS, "None"])
    return MultiStepQueryEngine(
        engine(),
        StepDecomposeQueryTransform(llm=kit.Scripted(reply=lambda _: next(steps))),
        response_synthesizer=get_response_synthesizer(llm=says(STEPPED)),
        index_summary=kit.WORDS("ferries"),
        num_steps=3,
    )


def flare() -> Any:
    said = iter([kit.WORDS("It leaves at ") + f"[Search({kit.QUESTION})]", f"{LEAVES} done"])
    return FLAREInstructQueryEngine(
        engine(), llm=kit.Scripted(reply=lambda _: next(said, "done")), max_iterations=2
    )


def of_both(question: str) -> list[str]:
    return list(dict.fromkeys([*kit.top(kit.QUESTIONS[0]), *kit.top(kit.QUESTIONS[1])]))


FORM_SPANS = ("chat scripted", f"execute_tool {FORM_NAME}", *kit.QUERY_SPANS[1:])
ONE = [kit.QUESTION]

SHAPES = (
    kit.shape(
        GROUP,
        "output_cls",
        lambda s: structured(),
        answer=lambda q: FILLED_IN,
        spans=FORM_SPANS,
        ways=kit.WAYS,
    ),
    *(
        kit.shape(
            GROUP,
            f"RetryQueryEngine, {'content' if passes else 'asked again'}",
            lambda s, passes=passes: retry(passes),  # type: ignore[misc]
            spans=None,
            ways=("query",),
        )
        for passes in (True, False)
    ),
    *(
        kit.shape(
            GROUP,
            f"RouterQueryEngine, several, {name}",
            router,
            answer=lambda q: COMBINED,
            spans=None,
            ways=ways,
            missing=missing,
        )
        for name, ways, missing in (
            ("sync", ("query", "stream"), None),
            ("async", ("aquery", "astream"), NO_ASYNC),
        )
    ),
    kit.shape(
        GROUP,
        "ToolRetrieverRouterQueryEngine",
        lambda s: tool_retriever(),
        answer=lambda q: COMBINED,
        spans=None,
        ways=("query",),
    ),
    kit.shape(
        GROUP,
        "SubQuestionQueryEngine, one fails",
        lambda s: sub_questions(failing=True),
        contexts=lambda q: kit.top(kit.QUESTION),
        answer=lambda q: joined([True, False]),
        spans=None,
        questions=[kit.BOTH],
        ways=kit.WAYS,
    ),
    kit.shape(
        GROUP,
        "MultiStepQueryEngine, two steps",
        lambda s: two_steps(),
        contexts=of_both,
        answer=lambda q: STEPPED,
        spans=None,
        questions=[kit.BOTH],
        ways=("query",),
    ),
    kit.shape(
        GROUP,
        "FLARE",
        lambda s: flare(),
        answer=lambda q: f"{LEAVES} done ",
        spans=None,
        questions=ONE,
        ways=("query",),
    ),
)
