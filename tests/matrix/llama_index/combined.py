"""Query engines made of others: retries, routers, sub-questions, structured output."""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

from llama_index.core import VectorStoreIndex
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.evaluation import GuidelineEvaluator, RelevancyEvaluator
from llama_index.core.indices.query.query_transform import StepDecomposeQueryTransform
from llama_index.core.objects import ObjectIndex
from llama_index.core.query_engine import (
    FLAREInstructQueryEngine,
    MultiStepQueryEngine,
    RetryGuidelineQueryEngine,
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

from tests.matrix.llama_index.engines import joined
from tests.matrix.llama_index.kit import (
    BOTH,
    FERRIES,
    NAMED,
    QUERY_SPANS,
    QUESTION,
    QUESTIONS,
    TICKETS,
    WAYS,
    WORDS,
    Bags,
    Scripted,
    answer_to,
    index,
    pick,
    prompt_text,
    reader,
    shape,
    told,
    top,
)

__all__ = ["SHAPES"]

GROUP = "query engines"
NO_ASYNC = None if find_spec("workflows") else "this version starts a loop within the loop"
ANSWERS = {question: answer_to(question, top(question)) for question in QUESTIONS}
STEPPED = told("At 07:40, for 310 crowns.")
LEAVES = told("The ferry leaves at 07:40.")
COMBINED = told("Both of them say that there are two passages.")


FILLED = {NAMED.name(): told("07:40"), NAMED.name(): told("north")}
FORM_NAME = NAMED.name().title()
FORM: Any = create_model(FORM_NAME, **dict.fromkeys(FILLED, (str, ...)))  # type: ignore[call-overload]
FILLED_IN = FORM(**FILLED).model_dump_json()


def says(text: str) -> Scripted:
    """An LLM that always says the same."""
    return Scripted(reply=lambda _: text)


def engine(llm: Any = None, **more: Any) -> Any:
    """A query engine."""
    return index().as_query_engine(llm=llm or reader(), similarity_top_k=2, **more)


def tool(name: str, llm: Any = None) -> QueryEngineTool:
    """A query engine as a tool."""
    return QueryEngineTool.from_defaults(engine(llm), name=name, description=WORDS("Knows it."))


def structured(by_class: bool) -> Any:
    """An engine whose model fills in a form."""
    llm = Scripted(reply=lambda _: pick(FORM_NAME, **FILLED))
    if by_class:
        return engine(llm, output_cls=FORM)
    return engine(llm.as_structured_llm(FORM))


def retry(passes: bool) -> Any:
    """Asked again, with the bad answer, until the evaluator is content or tired."""
    evaluator = RelevancyEvaluator(llm=says("YES" if passes else "NO"))
    return RetryQueryEngine(engine(), evaluator, max_retries=1)


def guideline() -> Any:
    """The same by a guideline."""
    judged = json.dumps({"passing": False, "feedback": WORDS("Be more specific about the ferry.")})
    evaluator = GuidelineEvaluator(llm=says(judged), guidelines=WORDS("Be specific."))
    return RetryGuidelineQueryEngine(engine(), evaluator, resynthesize_query=False, max_retries=1)


def router(streaming: bool) -> Any:
    """Two engines, and a summary of what both said."""
    chosen = json.dumps([{"choice": n, "reason": WORDS("it fits")} for n in (1, 2)])
    return RouterQueryEngine.from_defaults(
        [tool(FERRIES), tool(TICKETS)],
        llm=reader(),
        selector=LLMMultiSelector.from_defaults(llm=says(chosen)),
        summarizer=TreeSummarize(llm=says(COMBINED), streaming=streaming),
    )


def tool_retriever() -> Any:
    """The same with tools that are themselves retrieved."""
    tools = ObjectIndex.from_objects(
        [tool(FERRIES), tool(TICKETS)], index_cls=VectorStoreIndex, embed_model=Bags()
    )
    return ToolRetrieverRouterQueryEngine(
        tools.as_retriever(similarity_top_k=2),
        llm=reader(),
        summarizer=TreeSummarize(llm=says(COMBINED)),
    )


def sub_questions(failing: bool = False) -> Any:
    """Two questions for one, asked at once; one may fail."""
    asked = [{"sub_question": text, "tool_name": FERRIES} for text in QUESTIONS]
    read = reader().reply

    def reply(messages: Sequence[ChatMessage]) -> Any:
        if failing and QUESTIONS[1] in prompt_text(messages):
            raise ValueError("no answer")
        return read(messages)

    def join(messages: Sequence[ChatMessage]) -> str:
        prompt = prompt_text(messages)
        return joined(f"{q}\nResponse: {answer}" in prompt for q, answer in ANSWERS.items())

    generator = says("```json\n" + json.dumps({"items": asked}) + "\n```")
    return SubQuestionQueryEngine.from_defaults(
        [tool(FERRIES, Scripted(reply=reply))],
        llm=reader(),
        question_gen=LLMQuestionGenerator.from_defaults(llm=generator),
        response_synthesizer=get_response_synthesizer(llm=Scripted(reply=join), use_async=True),
        use_async=True,
        verbose=False,
    )


def two_steps() -> Any:
    """Two questions, one after the other."""
    steps = iter([*QUESTIONS, "None"])
    return MultiStepQueryEngine(
        engine(),
        StepDecomposeQueryTransform(llm=Scripted(reply=lambda _: next(steps))),
        response_synthesizer=get_response_synthesizer(llm=says(STEPPED)),
        index_summary=WORDS("ferries"),
        num_steps=3,
    )


def flare() -> Any:
    """Looks up what it needs while it writes."""
    said = iter([WORDS("It leaves at ") + f"[Search({QUESTION})]", f"{LEAVES} done"])
    return FLAREInstructQueryEngine(
        engine(), llm=Scripted(reply=lambda _: next(said, "done")), max_iterations=2
    )


def of_both(question: str) -> list[str]:
    """The contexts of both questions."""
    return list(dict.fromkeys([*top(QUESTIONS[0]), *top(QUESTIONS[1])]))


FORM_SPANS = ("chat scripted", f"execute_tool {FORM_NAME}", *QUERY_SPANS[1:])
ONE = [QUESTION]

SHAPES = (
    shape(
        GROUP,
        "output_cls",
        lambda s: structured(by_class=True),
        answer=lambda q: FILLED_IN,
        spans=FORM_SPANS,
        ways=WAYS,
    ),
    shape(
        GROUP,
        "as_structured_llm",
        lambda s: structured(by_class=False),
        answer=lambda q: FILLED_IN,
        # Old versions call the model by another name.
        spans=None,
        ways=WAYS,
    ),
    *(
        shape(
            GROUP,
            f"RetryQueryEngine, {'content' if passes else 'asked again'}",
            lambda s, passes=passes: retry(passes),  # type: ignore[misc]
            spans=None,
            ways=("query",),
        )
        for passes in (True, False)
    ),
    shape(GROUP, "RetryGuidelineQueryEngine", lambda s: guideline(), spans=None, ways=("query",)),
    *(
        shape(
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
    shape(
        GROUP,
        "ToolRetrieverRouterQueryEngine",
        lambda s: tool_retriever(),
        answer=lambda q: COMBINED,
        spans=None,
        ways=("query",),
    ),
    shape(
        GROUP,
        "SubQuestionQueryEngine, at once",
        lambda s: sub_questions(),
        contexts=of_both,
        answer=lambda q: joined([True, True]),
        spans=None,
        questions=[BOTH],
        ways=WAYS,
    ),
    shape(
        GROUP,
        "SubQuestionQueryEngine, one fails",
        lambda s: sub_questions(failing=True),
        contexts=lambda q: top(QUESTION),
        answer=lambda q: joined([True, False]),
        spans=None,
        questions=[BOTH],
        ways=WAYS,
    ),
    shape(
        GROUP,
        "MultiStepQueryEngine, two steps",
        lambda s: two_steps(),
        contexts=of_both,
        answer=lambda q: STEPPED,
        spans=None,
        questions=[BOTH],
        ways=("query",),
    ),
    shape(
        GROUP,
        "FLARE",
        lambda s: flare(),
        answer=lambda q: f"{LEAVES} done ",
        spans=None,
        questions=ONE,
        ways=("query",),
    ),
)
