"""Laws of the judge over LangChain's chat models, real ones and over real HTTP."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Sequence
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
from langchain_core.tracers.context import collect_runs, tracing_v2_enabled
from langchain_core.utils.function_calling import convert_to_openai_tool
from langchain_openai import ChatOpenAI
from langsmith import Client

from rag_eval_hooks import RagEval, Score
from rag_eval_hooks.errors import ConfigError
from rag_eval_hooks.findings import Findings
from rag_eval_hooks.judges.calls.limits import CallLimits
from rag_eval_hooks.score import Cause, NotScored
from rag_eval_hooks_langchain import LangChainDecisionJudge, LangChainJudge, disable, enable
from rag_eval_hooks_langchain.langchain_judge import LangChainChat
from tests.servers.brain import truthful_reply
from tests.servers.decision_server import DecisionServer
from tests.servers.faults import Fault, FaultKind
from tests.servers.judge_server import JudgeServer
from tests.servers.samples import GRADE, ONE, TRUTH, found, spent
from tests.support.corpus import samples
from tests.support.langchain_requests import Fixed
from tests.waiting import PATIENCE


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
        return ChatResult(generations=[ChatGeneration(message=self._message(messages, kwargs))])

    def _message(self, messages: list[BaseMessage], _kwargs: dict[str, Any]) -> AIMessage:
        return AIMessage(reply_to(messages))


class Caller(Plain):
    """A model that calls tools."""

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Runnable[Any, AIMessage]:
        return self.bind(tools=[convert_to_openai_tool(tool) for tool in tools], **kwargs)

    def _message(self, messages: list[BaseMessage], kwargs: dict[str, Any]) -> AIMessage:
        tool = kwargs["tools"][0]
        arguments = json.loads(reply_to(messages, tool))
        call = {"name": tool["function"]["name"], "args": arguments, "id": "1"}
        return AIMessage("", tool_calls=[call])


class Native(Plain):
    """A model that is async by itself."""

    async def _agenerate(self, messages: list[BaseMessage], *_: Any, **kwargs: Any) -> ChatResult:
        return self._generate(messages, **kwargs)


class Older(Caller):
    """A model whose structured output knows no methods; it keeps the tools that it was given."""

    asked: list[Any]

    def with_structured_output(self, schema: Any, **kwargs: Any) -> Any:
        if kwargs:
            raise ValueError("Received unsupported arguments")
        return super().with_structured_output(schema)

    def _message(self, messages: list[BaseMessage], kwargs: dict[str, Any]) -> AIMessage:
        self.asked.append(kwargs["tools"])
        return super()._message(messages, kwargs)


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
    settings: dict[str, Any] = {"model": "test-model", "api_key": "k", "max_retries": 0, **options}
    return ChatOpenAI(base_url=server.url, **settings)


MODELS: list[Any] = [Plain(), Caller(), Native(), Older(asked=[]), RunnableLambda(reply_to)]


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
        ({"response_metadata": {"finish_reason": "MAX_TOKENS"}, "tools": 1}, "be brief"),
        # Bedrock: blocks, and a reason in camel case.
        ({"content": [{"type": "text", "text": "<reply>"}]}, None),
        ({"response_metadata": {"stopReason": "guardrail_intervened"}}, "filter"),
        # Anthropic and OpenAI.
        ({"response_metadata": {"stop_reason": "refusal"}}, "refusal"),
        ({"additional_kwargs": {"refusal": "I cannot."}}, "refusal"),
        ({"content": ""}, "empty"),
        ({"tools": 2}, "more than once"),
    ],
)
async def test_judge_reads_the_messages_of_each_provider(
    reply: dict[str, Any], problem: str | None
) -> None:
    def run(messages: list[BaseMessage]) -> AIMessage:
        given, text = dict(reply), reply_to(messages)
        calls, content = given.pop("tools", 0), given.pop("content", "<reply>")
        if calls:
            call = {"name": "verdicts", "args": json.loads(text), "id": "1"}
            return AIMessage("", tool_calls=[call] * calls, **given)
        parts = json.dumps(content).replace('"<reply>"', json.dumps(text))
        return AIMessage(json.loads(parts), **given)

    finding = (await verified(RunnableLambda(run), attempts=1)).answer_support
    if problem is None:
        assert isinstance(finding, tuple)
    else:
        assert isinstance(finding, NotScored)
        assert problem in finding.detail


async def test_tools_have_no_enums_of_numbers() -> None:
    """Gemini refuses them."""
    model = Older(asked=[])
    judge = LangChainJudge(model)
    await GRADE.by(judge)
    await judge.aclose()
    assert model.asked
    assert not re.search(r'"enum": \[[0-9]', json.dumps(model.asked))


def test_what_can_be_no_judge_is_rejected() -> None:
    with pytest.raises(ConfigError, match="chat model"):
        LangChainJudge("gpt")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="timeout"):
        LangChainJudge(Plain(), timeout=0)


async def test_openai_models_are_asked_by_a_strict_schema_and_stay_as_they_are() -> None:
    with JudgeServer() as server:
        model = openai_model(server, temperature=0.7, callbacks=[Watcher()])
        before = {name: getattr(model, name) for name in type(model).model_fields}
        await verified(model)
        assert {name: getattr(model, name) for name in type(model).model_fields} == before
        asked = server.calls()[0].body
    assert asked["temperature"] == 0.7
    assert asked["response_format"]["json_schema"]["strict"] is True
    assert asked["response_format"]["json_schema"]["schema"]["additionalProperties"] is False


async def test_langchain_judge_leaves_retries_to_its_model() -> None:
    faults = [Fault(kind=FaultKind.RATE_LIMIT, calls=frozenset({1}))]
    with JudgeServer(faults=faults) as server:
        assert found(await verified(openai_model(server, max_retries=2))) == TRUTH
        assert len(server.calls()) == 2


async def test_a_model_that_blocks_neither_holds_up_the_loop_nor_its_own_time_out() -> None:
    findings = await verified(Plain(pause=600.0), timeout=0.2, retries=0)
    assert set(found(findings).values()) == {Cause.TIMEOUT}


# Nothing of the application's sees a judge call.


@pytest.mark.parametrize("kind", [Caller, Native])
async def test_no_handler_sees_a_judge_call(kind: type[Plain]) -> None:
    on_model, on_chain, findings = Watcher(), Watcher(), []
    judge = LangChainJudge(kind(callbacks=[on_model]))

    async def chain(_: Any) -> None:
        findings.append(await ONE.by(judge))

    with collect_runs() as collector:
        await RunnableLambda(chain).ainvoke({}, config={"callbacks": [on_chain]})
    await judge.aclose()
    assert found(findings[0]) == TRUTH
    assert on_model.events == on_chain.events == []
    assert [run.name for run in collector.traced_runs] == ["chain"]


async def test_no_call_is_traced_to_langsmith_or_kept_in_the_applications_cache() -> None:
    seen: list[str] = []

    class Recording(Client):
        def create_run(self, name: str, *_: Any, **__: Any) -> None:
            seen.append(name)

        def update_run(self, *_: Any, **__: Any) -> None:
            pass

    client = Recording(api_url="http://127.0.0.1:9", api_key="none", auto_batch_tracing=False)
    cache = InMemoryCache()
    with tracing_v2_enabled(client=client):
        await Native().ainvoke("application")
        assert seen == ["Native"]
        set_llm_cache(cache)
        try:
            assert found(await verified(Native())) == TRUTH
        finally:
            set_llm_cache(None)
    assert (seen, cache._cache) == (["Native"], {})


async def test_a_judge_that_retrieves_is_not_captured() -> None:
    asked: list[str] = []
    retriever = Fixed(documents=[Document("of q")])

    async def judge_by_rag(messages: list[BaseMessage]) -> str:
        asked.extend(document.page_content for document in await retriever.ainvoke("q"))
        return reply_to(messages)

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


def test_a_decision_model_of_langchain_gives_the_same_scores() -> None:
    """The oldest supported LangChain has none."""
    decisions = pytest.importorskip("langchain_core.decisions")

    class Served(decisions.BaseDecisionModel):  # type: ignore[misc, name-defined]
        url: str

        @property
        def _provider(self) -> str:
            return "test"

        def _classify(self, state: Any, questions: Any) -> Any:
            asked = {name: one.model_dump() for name, one in questions.items()}
            reply = httpx.post(f"{self.url}/systemone", json={"state": state, "questions": asked})
            return decisions.ClassifierResponse.model_validate(reply.raise_for_status().json())

    scores = []
    with DecisionServer() as server:
        ours = LangChainDecisionJudge(Served(model="m", url=server.url))
        for judge in (ours, f"systemone:{server.url}"):
            metrics = ("ragas.faithfulness", "ragas.context_precision", "nvidia")
            with RagEval(metrics, judge, embedder="none") as evals:
                outcomes = [evals.evaluate(one) for one in samples(3)]
            scores.append([one for each in outcomes for one in each.values()])
        assert len(server.decisions()) == 6
    values = [[one.value for one in each if isinstance(one, Score)] for each in scores]
    assert values[0] == values[1]
    assert [len(each) for each in values] == [len(each) for each in scores]
    with pytest.raises(ConfigError, match="LangChain decision model"):
        LangChainDecisionJudge("m")  # type: ignore[arg-type]
