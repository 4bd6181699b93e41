"""Laws of the judge over LlamaIndex's LLMs."""

from __future__ import annotations

import asyncio
import inspect
import json
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any

import pytest
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

from rag_eval_hooks.errors import ConfigError
from rag_eval_hooks.findings import Finding, Findings
from rag_eval_hooks.score import Cause
from rag_eval_hooks_llama_index import LlamaIndexJudge
from tests.matrix.llama_index.scripted import Scripted
from tests.servers.brain import truthful_reply
from tests.servers.samples import DECOMPOSE, ONE, TRUTH, found, spent

BLOCKS = ("block_text", "block_dict") if hasattr(types, "ToolCallBlock") else ()
"""Forms of tool calls that old versions do not know."""
FORMS = (*BLOCKS, "selection", "text")
CAN_REQUIRE = "tool_required" in inspect.signature(FunctionCallingLLM.achat_with_tools).parameters


def reply_to(text: str) -> str:
    return json.dumps(truthful_reply({"messages": [{"role": "user", "content": text}]}))


class Plain(CustomLLM):
    """An LLM that completes texts, not async by itself."""

    pause: float = 0.0

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(model_name="plain-1", is_chat_model=False)

    def complete(self, prompt: str, formatted: bool = False, **_: Any) -> CompletionResponse:
        time.sleep(self.pause)
        user = prompt.split("user: ", 1)[1].rsplit("\nassistant:", 1)[0].rstrip()
        return CompletionResponse(text=reply_to(user))

    def stream_complete(self, prompt: str, formatted: bool = False, **_: Any) -> Any:
        raise NotImplementedError


class Caller(Scripted):
    """An LLM that calls functions, in one of the forms in which integrations give that."""

    reply: Any = None
    form: str = FORMS[0]
    calls_functions: bool = True
    pause: float = 0.0
    limit: int | None = None
    raw: dict[str, Any] = Field(default_factory=dict)
    asked: list[Any] = Field(default_factory=list)

    @property
    def metadata(self) -> LLMMetadata:
        calls = self.calls_functions
        return LLMMetadata(model_name="m", is_chat_model=True, is_function_calling_model=calls)

    async def achat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponse:
        self.asked.append(kwargs)
        await asyncio.sleep(self.pause)
        text = reply_to(messages[-1].content or "")[: self.limit]
        form = self.form if kwargs.get("tools") else "text"
        message = ChatMessage(role=MessageRole.ASSISTANT, **self._called(form, text))
        return ChatResponse(message=message, raw=self.raw)

    def _called(self, form: str, text: str) -> dict[str, Any]:
        if form in BLOCKS:
            arguments = text if form == "block_text" else json.loads(text)
            return {"blocks": [types.ToolCallBlock(tool_name="reply", tool_kwargs=arguments)]}
        if form == "selection":
            return {"additional_kwargs": {"called": json.loads(text)}}
        return {"content": text}

    def get_tool_calls_from_response(
        self, response: ChatResponse, error_on_no_tool_call: bool = True, **_: Any
    ) -> list[ToolSelection]:
        called = response.message.additional_kwargs.get("called")
        made = {"tool_id": "1", "tool_name": "reply", "tool_kwargs": called}
        return [] if called is None else [ToolSelection(**made)]

    def _prepare_chat_with_tools(
        self,
        tools: Sequence[Any],
        user_msg: Any = None,
        chat_history: Any = None,
        verbose: bool = False,
        allow_parallel_tool_calls: bool = False,
        tool_required: bool = False,
        **_: Any,
    ) -> dict[str, Any]:
        described = [tool.metadata.to_openai_tool() for tool in tools]
        return {"messages": chat_history, "tools": described, "required": tool_required}


async def verified(llm: Any, **options: Any) -> Findings:
    judge = LlamaIndexJudge(llm, **options)
    try:
        return await ONE.by(judge)
    finally:
        await judge.aclose()


@pytest.mark.parametrize("form", FORMS)
async def test_a_model_that_calls_functions_is_asked_by_one(form: str) -> None:
    llm = Caller(form=form)
    judge = LlamaIndexJudge(llm)
    assert found(await ONE.by(judge)) == TRUTH
    assert (await DECOMPOSE.by(judge)).reference_claims == ONE.reference_claims
    asked = llm.asked[0]
    element = asked["tools"][0]["function"]["parameters"]["$defs"]["SupportElement"]
    assert element["required"] == list(element["properties"])
    assert element["properties"]["verdict"]["enum"] == ["supported", "contradicted", "not_stated"]
    assert element["properties"]["chunks"]["items"]["type"] == "integer"
    assert asked["required"] is CAN_REQUIRE


async def test_other_models_are_asked_by_text_stay_as_they_are_and_tell_no_callback() -> None:
    counter = TokenCountingHandler(tokenizer=str.split, event_starts_to_ignore=[])
    manager = CallbackManager([counter])
    for llm in (
        Plain(callback_manager=manager),
        Caller(callback_manager=manager, calls_functions=False),
    ):
        before = {name: getattr(llm, name) for name in type(llm).model_fields}
        findings = await verified(llm)
        assert found(findings) == TRUTH
        assert spent(findings).calls == pytest.approx(1)
        assert {name: getattr(llm, name) for name in type(llm).model_fields} == before
    assert counter.llm_token_counts == []
    Plain(callback_manager=manager).chat([ChatMessage(role="user", content="user: hello")])
    assert len(counter.llm_token_counts) == 1


def test_llama_index_judge_rejects_wrong_arguments() -> None:
    with pytest.raises(ConfigError, match="LLM"):
        LlamaIndexJudge("gpt")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="concurrency"):
        LlamaIndexJudge(Plain(), concurrency=-1)


async def test_usage_matches_the_models_report() -> None:
    for raw in (
        {"usage": {"prompt_tokens": 100, "completion_tokens": 20}},
        {"usage": {"input_tokens": 100, "output_tokens": 20}},
        {"prompt_eval_count": 100, "eval_count": 20},
    ):
        told = spent(await verified(Caller(raw=raw)))
        assert [told.input_tokens, told.output_tokens] == pytest.approx([100, 20]), raw


@pytest.mark.parametrize("form", ["selection", "text"])
async def test_reply_at_the_token_limit_counts_as_far_as_it_is_complete(form: str) -> None:
    # The second claim is asked for again. Where the cut is, parsed arguments do not show.
    is_parsed = form == "selection"
    for raw in ({"choices": [{"finish_reason": "length"}]}, {"stop_reason": "max_tokens"}):
        llm = Caller(raw=raw, form=form, limit=None if is_parsed else 250)
        (support,) = found(await verified(llm)).values()
        assert support == (Cause.JUDGE_FAILED if is_parsed else TRUTH[Finding.ANSWER_SUPPORT]), raw
        assert len(llm.asked) == (3 if is_parsed else 2)


@pytest.mark.parametrize("llm", [Plain(pause=600.0), Caller(pause=600.0)])
async def test_a_stuck_llm_is_a_time_out(llm: Any) -> None:
    findings = await verified(llm, timeout=0.2, retries=0)
    assert set(found(findings).values()) == {Cause.TIMEOUT}


def test_without_the_extra_the_error_names_it() -> None:
    code = "import sys; sys.modules['llama_index.core'] = None; import rag_eval_hooks_llama_index"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert 'pip install ".[llama-index]"' in done.stderr
