"""Laws of judges over functions, models of LangChain and LLMs of LlamaIndex."""

from __future__ import annotations

import asyncio
import inspect
import json
import re
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from langchain_core.caches import InMemoryCache
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.documents import Document
from langchain_core.globals import set_llm_cache
from langchain_core.language_models import BaseChatModel, FakeListChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import Runnable, RunnableLambda
from langchain_core.tracers.context import collect_runs
from langchain_core.utils.function_calling import convert_to_openai_tool
from langchain_openai import ChatOpenAI
from llama_index.core.base.llms import types
from llama_index.core.base.llms.types import (
    ChatMessage,
    ChatResponse,
    CompletionResponse,
    LLMMetadata,
    MessageRole,
)
from llama_index.core.callbacks import CallbackManager, TokenCountingHandler
from llama_index.core.llms import CustomLLM
from llama_index.core.llms.function_calling import FunctionCallingLLM
from llama_index.core.llms.llm import ToolSelection
from pydantic import Field

from rag_eval_hooks import RagEval, Score
from rag_eval_hooks.errors import ConfigError
from rag_eval_hooks.findings import Finding, Findings
from rag_eval_hooks.judges.llm import CallableJudge, Messages
from rag_eval_hooks.judges.model_calls import CallLimits
from rag_eval_hooks.own_requests import is_suppressed, suppressed
from rag_eval_hooks.score import Cause, NotScored
from rag_eval_hooks_langchain import LangChainJudge, disable, enable
from rag_eval_hooks_langchain.langchain_judge import LangChainChat
from rag_eval_hooks_llama_index import LlamaIndexJudge
from tests.matrix.llama_index.scripted import Scripted
from tests.support.corpus import samples
from tests.support.langchain_requests import Fixed
from tests.support.scripts import run_script
from tests.support.servers.brain import truthful_reply
from tests.support.servers.decision_server import DecisionServer
from tests.support.servers.faults import Fault, FaultKind
from tests.support.servers.judge_server import JudgeServer
from tests.support.servers.samples import DECOMPOSE, GRADE, ONE, TRUTH, found, spent
from tests.waiting import PATIENCE

SECRET = "the-content-of-a-sample"
BLOCKS = ("block_text", "block_dict") if hasattr(types, "ToolCallBlock") else ()
"""Forms of tool calls that old versions of LlamaIndex do not know."""
FORMS = (*BLOCKS, "selection", "text")


def reply_to(text: str, tool: Any = None) -> str:
    body: dict[str, Any] = {"messages": [{"role": "user", "content": text}]}
    if tool is not None:
        schema = tool["function"]["parameters"]
        body["response_format"] = {"json_schema": {"schema": schema}}
    return json.dumps(truthful_reply(body))


def told(messages: Messages) -> str:
    return reply_to(messages[-1]["content"])


async def told_async(messages: Messages) -> str:
    await asyncio.sleep(0)
    return told(messages)


def answered(messages: Sequence[BaseMessage]) -> str:
    return reply_to(str(messages[-1].content))


class Plain(BaseChatModel):
    """A model of LangChain without tools, not async by itself."""

    temperature: float = 0.7
    pause: float = 0.0

    @property
    def _llm_type(self) -> str:
        return "plain"

    def _generate(self, messages: list[BaseMessage], *_: Any, **kwargs: Any) -> ChatResult:
        time.sleep(self.pause)
        message = self._message(messages, kwargs)
        return ChatResult(generations=[ChatGeneration(message=message)])

    def _message(self, messages: list[BaseMessage], _kwargs: dict[str, Any]) -> AIMessage:
        return AIMessage(answered(messages))


class Caller(Plain):
    model_name: str = "caller-1"

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Runnable[Any, AIMessage]:
        return self.bind(tools=[convert_to_openai_tool(tool) for tool in tools], **kwargs)

    def with_structured_output(self, schema: Any, **kwargs: Any) -> Any:
        if kwargs:
            raise ValueError("Received unsupported arguments")
        return super().with_structured_output(schema)

    def _message(self, messages: list[BaseMessage], kwargs: dict[str, Any]) -> AIMessage:
        tool = kwargs["tools"][0]
        assert not re.search(r'"enum": \[[0-9]', json.dumps(tool))
        args = json.loads(reply_to(str(messages[-1].content), tool))
        call = {"name": tool["function"]["name"], "args": args, "id": "1"}
        return AIMessage("", tool_calls=[call])


class Native(Plain):
    async def _agenerate(self, messages: list[BaseMessage], *_: Any, **kwargs: Any) -> ChatResult:
        await asyncio.sleep(self.pause)
        message = self._message(messages, kwargs)
        return ChatResult(generations=[ChatGeneration(message=message)])


class Completer(CustomLLM):
    """An LLM of LlamaIndex that completes texts, not async by itself."""

    pause: float = 0.0
    temperature: float = 0.7

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(model_name="plain-1", is_chat_model=False)

    def complete(self, prompt: str, formatted: bool = False, **_: Any) -> CompletionResponse:
        time.sleep(self.pause)
        user = prompt.split("user: ", 1)[1].rsplit("\nassistant:", 1)[0].rstrip()
        return CompletionResponse(text=reply_to(user))

    def stream_complete(self, prompt: str, formatted: bool = False, **_: Any) -> Any:
        raise NotImplementedError


class FunctionCaller(Scripted):
    reply: Any = None
    form: str = FORMS[0]
    calls_functions: bool = True
    pause: float = 0.0
    limit: int | None = None
    raw: dict[str, Any] = Field(default_factory=dict)
    asked: list[Any] = Field(default_factory=list)

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(
            model_name="caller-1",
            is_chat_model=True,
            is_function_calling_model=self.calls_functions,
        )

    async def achat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponse:
        self.asked.append(kwargs)
        await asyncio.sleep(self.pause)
        text = reply_to(messages[-1].content or "")[: self.limit]
        message = self._called(text) if kwargs.get("tools") else ChatMessage(content=text)
        message.role = MessageRole.ASSISTANT
        return ChatResponse(message=message, raw=self.raw)

    def _called(self, text: str) -> ChatMessage:
        if self.form in BLOCKS:
            given = text if self.form == "block_text" else json.loads(text)
            return ChatMessage(blocks=[types.ToolCallBlock(tool_name="reply", tool_kwargs=given)])
        if self.form == "selection":
            return ChatMessage(additional_kwargs={"called": json.loads(text)})
        return ChatMessage(content=text)

    def get_tool_calls_from_response(
        self, response: ChatResponse, error_on_no_tool_call: bool = True, **_: Any
    ) -> list[ToolSelection]:
        called = response.message.additional_kwargs.get("called")
        if called is None:
            return []
        return [ToolSelection(tool_id="1", tool_name="reply", tool_kwargs=called)]

    def _prepare_chat_with_tools(  # type: ignore[override]
        self, tools: Any, *_: Any, chat_history: Any, tool_required: bool = False, **__: Any
    ) -> dict[str, Any]:
        described = [tool.metadata.to_openai_tool() for tool in tools]
        return {"messages": chat_history, "tools": described, "required": tool_required}


async def verified(judge: Any) -> Findings:
    try:
        return await ONE.by(judge)
    finally:
        await judge.aclose()


FUNCTIONS: list[Any] = [told, told_async, partial(told_async), lambda m: told_async(m)]
RUNNABLES: list[Any] = [Plain(), Caller(), Native(), RunnableLambda(answered)]
RUNNABLES.append(RunnableLambda(lambda given: AIMessage(answered(given))))
LLMS: list[Any] = [Completer(), FunctionCaller(calls_functions=False)]
LLMS += [FunctionCaller(form=form) for form in FORMS]


@pytest.mark.parametrize(
    ("kind", "models"),
    [(CallableJudge, FUNCTIONS), (LangChainJudge, RUNNABLES), (LlamaIndexJudge, LLMS)],
)
async def test_any_model_of_a_framework_is_a_judge(kind: Any, models: list[Any]) -> None:
    for model in models:
        findings = await verified(kind(model))
        assert found(findings) == TRUTH, model
        assert spent(findings).calls == pytest.approx(1), model


def started(pause: float) -> Any:
    return lambda _messages: time.sleep(pause)


@pytest.mark.parametrize(
    ("kind", "make"),
    [
        (CallableJudge, started),
        (CallableJudge, lambda pause: lambda _messages: asyncio.sleep(pause)),
        (LangChainJudge, lambda pause: Plain(pause=pause)),
        (LlamaIndexJudge, lambda pause: Completer(pause=pause)),
        (LlamaIndexJudge, lambda pause: FunctionCaller(pause=pause)),
    ],
)
async def test_a_stuck_model_is_a_time_out(kind: Any, make: Any) -> None:
    judge = kind(make(600.0), timeout=0.2, retries=0, concurrency=1)
    for _ in range(2):
        assert set(found(await ONE.by(judge)).values()) == {Cause.TIMEOUT}


def test_a_stuck_function_does_not_keep_the_process(tmp_path: Path) -> None:
    code = """
        import asyncio, time
        from rag_eval_hooks.judges.llm import CallableJudge
        from tests.support.servers.samples import ONE
        judge = CallableJudge(lambda messages: time.sleep(600), timeout=0.1)
        asyncio.run(ONE.by(judge))
    """
    assert run_script(tmp_path, code) == ""


@pytest.mark.parametrize("blocking", [False, True])
async def test_calls_of_a_function_are_quiet_where_the_evaluator_is(blocking: bool) -> None:
    marks: list[bool] = []

    def ask(_messages: Messages) -> str:
        marks.append(is_suppressed())
        raise RuntimeError(SECRET)

    async def ask_async(messages: Messages) -> str:
        return ask(messages)

    with suppressed():
        finding = (await verified(CallableJudge(ask if blocking else ask_async))).answer_support
    assert set(marks) == {True}
    assert isinstance(finding, NotScored)
    assert finding.cause is Cause.JUDGE_FAILED
    assert "RuntimeError" in finding.detail
    assert SECRET not in finding.detail


MESSAGES: list[tuple[dict[str, Any], str | None]] = [
    # Gemini: parts with thoughts, reasons in capitals.
    ({"content": [{"type": "thinking", "thinking": "{}"}, "<reply>"]}, None),
    ({"response_metadata": {"finish_reason": "STOP"}}, None),
    ({"response_metadata": {"finish_reason": "SAFETY"}}, "filter"),
    ({"response_metadata": {"finish_reason": "MAX_TOKENS"}, "tools": 1}, "be brief"),
    # Bedrock: blocks, and a reason in camel case.
    ({"content": [{"type": "text", "text": "<reply>"}]}, None),
    ({"response_metadata": {"stopReason": "end_turn"}, "tools": 1}, None),
    ({"response_metadata": {"stopReason": "guardrail_intervened"}}, "filter"),
    # Anthropic and OpenAI.
    ({"response_metadata": {"stop_reason": "refusal"}}, "refusal"),
    ({"additional_kwargs": {"refusal": "I cannot."}}, "refusal"),
    ({"content": ""}, "empty"),
    ({"tools": 2}, "more than once"),
]


async def test_langchain_judge_reads_the_messages_of_each_provider() -> None:
    for reply, problem in MESSAGES:

        def run(messages: list[BaseMessage], reply: dict[str, Any] = reply) -> AIMessage:
            text, given = answered(messages), dict(reply)
            content = given.pop("content", "<reply>")
            calls = [{"name": "verdicts", "args": json.loads(text), "id": "1"}]
            if tools := given.pop("tools", 0):
                return AIMessage("", tool_calls=calls * tools, **given)
            parts = json.loads(json.dumps(content).replace('"<reply>"', json.dumps(text)))
            return AIMessage(parts, **given)

        judge = LangChainJudge(RunnableLambda(run))
        finding = (await verified(judge)).answer_support
        assert isinstance(finding, tuple) is (problem is None), reply
        assert not isinstance(finding, NotScored) or str(problem) in finding.detail, reply


async def test_tools_of_langchain_have_no_enums_of_numbers() -> None:
    """Gemini refuses them, as the model here does."""
    assert isinstance((await GRADE.by(LangChainJudge(Caller()))).accuracy_ratings, tuple)


class Watcher(BaseCallbackHandler):
    def __init__(self) -> None:
        self.events: list[str] = []

    def on_chat_model_start(self, *_: Any, **__: Any) -> None:
        self.events.append("start")

    def on_llm_end(self, *_: Any, **__: Any) -> None:
        self.events.append("end")


async def test_an_openai_model_of_langchain_stays_as_it_is() -> None:
    faults = [Fault(kind=FaultKind.RATE_LIMIT, calls=frozenset({1}))]
    with JudgeServer(faults=faults) as server:
        settings: dict[str, Any] = {"temperature": 0.7, "max_retries": 2, "callbacks": [Watcher()]}
        model = ChatOpenAI(model="test-model", api_key="k", base_url=server.url, **settings)
        before = {name: getattr(model, name) for name in type(model).model_fields}
        assert found(await verified(LangChainJudge(model))) == TRUTH
        assert {name: getattr(model, name) for name in type(model).model_fields} == before
        _, call = server.calls()
    assert call.body["temperature"] == 0.7
    asked = call.body["response_format"]["json_schema"]
    assert asked["strict"] is True
    assert asked["schema"]["additionalProperties"] is False


@pytest.mark.parametrize("kind", [Caller, Native])
async def test_no_handler_tracer_or_cache_of_langchain_sees_a_judge_call(kind: type[Plain]) -> None:
    on_model, on_chain, findings, cache = Watcher(), Watcher(), [], InMemoryCache()
    judge = LangChainJudge(kind(callbacks=[on_model]))

    async def chain(_: Any) -> None:
        findings.append(await verified(judge))

    set_llm_cache(cache)
    try:
        with collect_runs() as collector:
            await RunnableLambda(chain).ainvoke({}, config={"callbacks": [on_chain]})
    finally:
        set_llm_cache(None)
    assert found(findings[0]) == TRUTH
    assert on_model.events == on_chain.events == []
    assert [run.name for run in collector.traced_runs] == ["chain"]
    assert cache._cache == {}


async def test_a_judge_that_retrieves_is_not_captured() -> None:
    asked: list[str] = []
    retriever = Fixed(documents=[Document("of q")])

    async def judge_by_rag(messages: list[BaseMessage]) -> str:
        asked.extend(document.page_content for document in await retriever.ainvoke("q"))
        return answered(messages)

    judge = LangChainJudge(RunnableLambda(judge_by_rag))
    chain = retriever | RunnableLambda(lambda found: f"Written here: {found[0].page_content}")
    evals = RagEval(metrics=["ragas.faithfulness"], judge=judge, embedder="none")
    enable(evals)
    try:
        await chain.ainvoke("q")
        assert await asyncio.to_thread(evals.flush, PATIENCE)
    finally:
        disable()
        evals.shutdown(1)
    assert asked
    assert evals.stats().offered == 1


def test_a_memo_tells_models_of_one_name_apart() -> None:
    scopes = [
        LangChainChat(FakeListChatModel(responses=responses), CallLimits()).memo_scope
        for responses in (["a"], ["b"], ["a"])
    ]
    assert scopes[0] == scopes[2] != scopes[1]


async def test_a_model_of_llama_index_that_calls_functions_is_asked_by_one() -> None:
    llm = FunctionCaller()
    judge = LlamaIndexJudge(llm)
    assert found(await ONE.by(judge)) == TRUTH
    assert (await DECOMPOSE.by(judge)).reference_claims == ONE.reference_claims
    asked = llm.asked[0]
    element = asked["tools"][0]["function"]["parameters"]["$defs"]["SupportElement"]
    assert element["required"] == list(element["properties"])
    assert element["properties"]["verdict"]["enum"] == ["supported", "contradicted", "not_stated"]
    assert element["properties"]["chunks"]["items"]["type"] == "integer"
    signature = inspect.signature(FunctionCallingLLM.achat_with_tools)
    assert asked["required"] is ("tool_required" in signature.parameters)


async def test_usage_of_llama_index_matches_the_models_report() -> None:
    for raw in (
        {"usage": {"prompt_tokens": 100, "completion_tokens": 20}},
        {"usage": {"input_tokens": 100, "output_tokens": 20}},
        {"prompt_eval_count": 100, "eval_count": 20},
    ):
        used = spent(await verified(LlamaIndexJudge(FunctionCaller(raw=raw))))
        assert [used.input_tokens, used.output_tokens] == pytest.approx([100, 20]), raw


@pytest.mark.parametrize("form", FORMS)
async def test_reply_at_the_token_limit_counts_as_far_as_it_is_complete(form: str) -> None:
    # The second claim is asked for again. Where the cut is, parsed arguments do not show.
    is_parsed = form in ("block_dict", "selection")
    for raw in ({"choices": [{"finish_reason": "length"}]}, {"stop_reason": "max_tokens"}):
        llm = FunctionCaller(raw=raw, form=form, limit=None if is_parsed else 250)
        (support,) = found(await verified(LlamaIndexJudge(llm))).values()
        assert support == (Cause.JUDGE_FAILED if is_parsed else TRUTH[Finding.ANSWER_SUPPORT])
        assert len(llm.asked) == (3 if is_parsed else 2)


async def test_the_llm_stays_as_it_is_and_its_callbacks_see_nothing() -> None:
    counter = TokenCountingHandler(tokenizer=str.split, event_starts_to_ignore=[])
    manager = CallbackManager([counter])
    for llm in (Completer(callback_manager=manager), FunctionCaller(callback_manager=manager)):
        before = {name: getattr(llm, name) for name in type(llm).model_fields}
        assert found(await verified(LlamaIndexJudge(llm))) == TRUTH
        assert {name: getattr(llm, name) for name in type(llm).model_fields} == before
    assert counter.llm_token_counts == []
    Completer(callback_manager=manager).chat([ChatMessage(role="user", content="user: hello")])
    assert len(counter.llm_token_counts) == 1


def test_a_decision_model_of_langchain_gives_the_scores_of_its_server() -> None:
    decisions = pytest.importorskip("langchain_core.decisions")
    from rag_eval_hooks_langchain import LangChainDecisionJudge

    class Served(decisions.BaseDecisionModel):  # type: ignore[misc, name-defined]
        url: str

        @property
        def _provider(self) -> str:
            return "test"

        def _classify(self, state: Any, questions: Any) -> Any:
            asked = {name: one.model_dump() for name, one in questions.items()}
            reply = httpx.post(f"{self.url}/systemone", json={"state": state, "questions": asked})
            return decisions.ClassifierResponse.model_validate(reply.raise_for_status().json())

    metrics = ("ragas.faithfulness", "ragas.context_precision", "nvidia")
    scores = []
    with DecisionServer() as server:
        model = Served(model="m", url=server.url)
        for judge in (LangChainDecisionJudge(model), f"systemone:{server.url}"):
            with RagEval(metrics, judge, embedder="none") as evals:
                outcomes = [one for each in samples(3) for one in evals.evaluate(each).values()]
            assert all(isinstance(one, Score) for one in outcomes)
            scores.append([one.value for one in outcomes])
        assert len(server.decisions()) == 6
    assert scores[0] == scores[1]
    with pytest.raises(ConfigError, match="LangChain decision model"):
        LangChainDecisionJudge("m")  # type: ignore[arg-type]
