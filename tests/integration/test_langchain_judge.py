"""Laws of the judge over LangChain's chat models, real ones and over real HTTP."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Sequence
from contextvars import ContextVar
from typing import Any

import pytest
from langchain_core.caches import InMemoryCache
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.documents import Document
from langchain_core.globals import set_llm_cache
from langchain_core.language_models import BaseChatModel, FakeListChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import Runnable, RunnableLambda
from langchain_core.tracers.context import (
    _configure_hooks,
    collect_runs,
    register_configure_hook,
    tracing_v2_enabled,
)
from langchain_core.utils.function_calling import convert_to_openai_tool
from langchain_openai import ChatOpenAI
from langsmith import Client

from rag_eval_hooks import RagEval
from rag_eval_hooks.errors import ConfigError
from rag_eval_hooks.findings import Findings
from rag_eval_hooks.judges.calls.limits import CallLimits
from rag_eval_hooks.score import Cause, NotScored
from rag_eval_hooks_langchain import LangChainJudge, RagEvalCallbackHandler
from rag_eval_hooks_langchain.langchain_judge import LangChainChat
from tests.servers.brain import truthful_reply
from tests.servers.faults import Fault, FaultKind
from tests.servers.judge_server import JudgeServer
from tests.servers.samples import GRADE, ONE, TRUTH, found, spent
from tests.waiting import PATIENCE

KEY = "sk-test-0123456789"


def reply_to(messages: Sequence[BaseMessage], tool: Any = None) -> str:
    body: dict[str, Any] = {"messages": [{"role": "user", "content": messages[-1].content}]}
    if tool is not None:
        schema = tool["function"]["parameters"]
        body["response_format"] = {"json_schema": {"schema": schema}}
    return json.dumps(truthful_reply(body))


class Plain(BaseChatModel):
    """A model without tools, not async by itself."""

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
        return AIMessage(reply_to(messages))


class Caller(Plain):
    """A model that calls tools, and tells its tokens."""

    model_name: str = "caller-1"

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Runnable[Any, AIMessage]:
        return self.bind(tools=[convert_to_openai_tool(tool) for tool in tools], **kwargs)

    def _message(self, messages: list[BaseMessage], kwargs: dict[str, Any]) -> AIMessage:
        tool = kwargs["tools"][0]
        call = {
            "name": tool["function"]["name"],
            "args": json.loads(reply_to(messages, tool)),
            "id": "1",
        }
        usage = {"input_tokens": 100, "output_tokens": 20, "total_tokens": 120}
        return AIMessage("", tool_calls=[call], usage_metadata=usage)


class Native(Plain):
    """A model that is async by itself."""

    async def _agenerate(self, messages: list[BaseMessage], *_: Any, **kwargs: Any) -> ChatResult:
        await asyncio.sleep(self.pause)
        message = self._message(messages, kwargs)
        return ChatResult(generations=[ChatGeneration(message=message)])


class Watcher(BaseCallbackHandler):
    """Notes every event of a chat model."""

    def __init__(self) -> None:
        self.events: list[str] = []

    def on_chat_model_start(self, *_: Any, **__: Any) -> None:
        self.events.append("start")

    def on_llm_end(self, *_: Any, **__: Any) -> None:
        self.events.append("end")


async def verified(model: Any, **options: Any) -> Findings:
    judge = LangChainJudge(model, **options)
    try:
        return await ONE.by(judge)
    finally:
        await judge.aclose()


def openai_model(server: JudgeServer, **options: Any) -> ChatOpenAI:
    settings: dict[str, Any] = {"model": "test-model", "api_key": KEY, "max_retries": 0, **options}
    return ChatOpenAI(base_url=server.url, **settings)


class Older(Caller):
    """A model whose structured output knows no methods."""

    def with_structured_output(self, schema: Any, **kwargs: Any) -> Any:
        if kwargs:
            raise ValueError("Received unsupported arguments")
        return super().with_structured_output(schema)


MODELS: list[Any] = [Plain(), Caller(), Native(), Older()]
MODELS += [RunnableLambda(reply_to), RunnableLambda(lambda given: AIMessage(reply_to(given)))]


@pytest.mark.parametrize("model", MODELS)
async def test_any_runnable_from_messages_is_a_judge(model: Any) -> None:
    findings = await verified(model)
    assert found(findings) == TRUTH
    assert spent(findings).calls == pytest.approx(1)


@pytest.mark.parametrize(
    ("reply", "problem"),
    [
        # Gemini: parts with thoughts, reasons in capitals.
        ({"content": [{"type": "thinking", "thinking": "{}"}, "<reply>"]}, None),
        ({"response_metadata": {"finish_reason": "STOP"}}, None),
        ({"response_metadata": {"finish_reason": "SAFETY"}}, "filter"),
        ({"response_metadata": {"finish_reason": "MAX_TOKENS"}, "tools": True}, "be brief"),
        # Bedrock: blocks, and a reason in camel case.
        ({"content": [{"type": "text", "text": "<reply>"}]}, None),
        ({"response_metadata": {"stopReason": "end_turn"}, "tools": True}, None),
        ({"response_metadata": {"stopReason": "guardrail_intervened"}}, "filter"),
        # Anthropic and OpenAI.
        ({"response_metadata": {"stop_reason": "refusal"}}, "refusal"),
        ({"additional_kwargs": {"refusal": "I cannot."}}, "refusal"),
        ({"content": ""}, "empty"),
        ({"tools": True, "twice": True}, "more than once"),
    ],
)
async def test_judge_reads_the_messages_of_each_provider(
    reply: dict[str, Any], problem: str | None
) -> None:
    def run(messages: list[BaseMessage]) -> AIMessage:
        given = {key: value for key, value in reply.items() if key not in ("tools", "twice")}
        text = reply_to(messages)
        content = given.pop("content", "<reply>")
        parts = json.loads(json.dumps(content).replace('"<reply>"', json.dumps(text)))
        if "tools" not in reply:
            return AIMessage(parts, **given)
        call = {"name": "verdicts", "args": json.loads(text), "id": "1"}
        return AIMessage("", tool_calls=[call] * (1 + ("twice" in reply)), **given)

    finding = (await verified(RunnableLambda(run), attempts=1)).answer_support
    if problem is None:
        assert isinstance(finding, tuple)
    else:
        assert isinstance(finding, NotScored)
        assert problem in finding.detail


async def test_tools_have_no_enums_of_numbers() -> None:
    asked: list[Any] = []

    class Gemini(Older):
        def _message(self, messages: list[BaseMessage], kwargs: dict[str, Any]) -> AIMessage:
            asked.append(kwargs["tools"])
            return super()._message(messages, kwargs)

    judge = LangChainJudge(Gemini())
    await GRADE.by(judge)
    await judge.aclose()
    assert asked
    assert not re.search(r'"enum": \[[0-9]', json.dumps(asked))


def test_object_without_invoke_is_rejected() -> None:
    with pytest.raises(ConfigError, match="chat model"):
        LangChainJudge("gpt")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="timeout"):
        LangChainJudge(Plain(), timeout=0)


async def test_openai_models_are_asked_by_a_strict_schema() -> None:
    with JudgeServer() as server:
        await verified(openai_model(server))
        asked = server.calls()[0].body["response_format"]["json_schema"]
    assert asked["strict"] is True
    assert asked["schema"]["additionalProperties"] is False


async def test_the_model_stays_as_it_is() -> None:
    with JudgeServer() as server:
        model = openai_model(server, temperature=0.7, callbacks=[Watcher()])
        before = {name: getattr(model, name) for name in type(model).model_fields}
        await verified(model)
        assert {name: getattr(model, name) for name in type(model).model_fields} == before
        assert server.calls()[0].body["temperature"] == 0.7


@pytest.mark.parametrize("kind", [Caller, Native])
async def test_no_handler_sees_a_judge_call(kind: type[Plain]) -> None:
    on_model, on_chain, findings = Watcher(), Watcher(), []
    model = kind(callbacks=[on_model])
    judge = LangChainJudge(model)

    async def chain(_: Any) -> None:
        findings.append(await ONE.by(judge))

    with collect_runs() as collector:
        await RunnableLambda(chain).ainvoke({}, config={"callbacks": [on_chain]})
    await judge.aclose()
    assert found(findings[0]) == TRUTH
    assert on_model.events == on_chain.events == []
    assert [run.name for run in collector.traced_runs] == ["chain"]


async def test_no_call_is_traced_to_langsmith() -> None:
    seen: list[str] = []

    class Recording(Client):
        def create_run(self, name: str, *_: Any, **__: Any) -> None:
            seen.append(name)

        def update_run(self, *_: Any, **__: Any) -> None:
            pass

    client = Recording(api_url="http://127.0.0.1:9", api_key="none", auto_batch_tracing=False)
    judge = LangChainJudge(Native())
    with tracing_v2_enabled(client=client):
        await Native().ainvoke("application")
        assert seen == ["Native"]
        await ONE.by(judge)
    assert seen == ["Native"]


async def test_no_cache_of_the_application_is_touched() -> None:
    cache = InMemoryCache()
    set_llm_cache(cache)
    try:
        assert found(await verified(Native())) == TRUTH
    finally:
        set_llm_cache(None)
    assert cache._cache == {}


async def test_langchain_judge_leaves_retries_to_its_model() -> None:
    faults = [Fault(kind=FaultKind.RATE_LIMIT, calls=frozenset({1}))]
    with JudgeServer(faults=faults) as server:
        assert found(await verified(openai_model(server, max_retries=2))) == TRUTH
        assert len(server.calls()) == 2


async def test_a_model_that_blocks_neither_holds_up_the_loop_nor_its_own_time_out() -> None:
    findings = await verified(Plain(pause=600.0), timeout=0.2, retries=0)
    assert set(found(findings).values()) == {Cause.TIMEOUT}


class Store(BaseRetriever):
    def _get_relevant_documents(self, query: str, **_: Any) -> list[Document]:
        return [Document(page_content=f"of {query}")]


async def test_a_judge_that_retrieves_is_not_captured_by_a_global_handler() -> None:
    asked: list[str] = []
    retriever = Store()

    async def judge_by_rag(messages: list[BaseMessage]) -> str:
        documents = await retriever.ainvoke("q")
        asked.append(documents[0].page_content)
        return reply_to(messages)

    judge = LangChainJudge(RunnableLambda(judge_by_rag))
    chain = retriever | RunnableLambda(
        lambda documents: f"Written here: {documents[0].page_content}"
    )
    evals = RagEval(metrics=["ragas.faithfulness"], judge=judge, embedder="none")
    handler = RagEvalCallbackHandler(evals)
    everywhere: ContextVar[Any] = ContextVar("everywhere", default=handler)
    register_configure_hook(everywhere, inheritable=True)
    try:
        await chain.ainvoke("q")
        assert await asyncio.to_thread(evals.flush, PATIENCE)
        assert asked
        assert evals.stats().offered == 1
    finally:
        _configure_hooks.pop()
        evals.shutdown(1)


def test_a_memo_tells_models_of_one_name_apart() -> None:
    scopes = [
        LangChainChat(FakeListChatModel(responses=responses), CallLimits()).memo_scope
        for responses in (["a"], ["b"], ["a"])
    ]
    assert scopes[0] == scopes[2] != scopes[1]
