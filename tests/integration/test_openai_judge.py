"""Laws of the OpenAI-compatible judge, over real HTTP."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from rag_eval_hooks.errors import ConfigError, JudgeError
from rag_eval_hooks.findings import Findings
from rag_eval_hooks.judges.openai import OpenAIJudge
from rag_eval_hooks.judges.openai_embedder import OpenAIEmbedder
from rag_eval_hooks.score import Cause, NotScored
from tests.servers.faults import Fault, FaultKind
from tests.servers.judge_server import JudgeServer
from tests.servers.samples import ONE, TRUTH, found, is_right_or_absent, spent
from tests.waiting import PATIENCE

KEY = "sk-test-0123456789"


@asynccontextmanager
async def judge_at(server: JudgeServer, **options: Any) -> AsyncIterator[OpenAIJudge]:
    judge = OpenAIJudge("test-model", **{"base_url": server.url, "api_key": KEY, **options})
    try:
        yield judge
    finally:
        await judge.aclose()


async def verified(server: JudgeServer, **options: Any) -> Findings:
    async with judge_at(server, **options) as judge:
        return await ONE.by(judge)


async def test_a_truthful_model_gives_true_findings() -> None:
    with JudgeServer(api_key=KEY) as server:
        async with judge_at(server) as judge:
            assert found(await ONE.by(judge)) == TRUTH
        (call,) = server.calls()
    assert call.format == "json_schema"
    assert call.body["temperature"] == 0.0
    assert call.body["response_format"]["json_schema"]["strict"]


NO_SHAPES = {"json_schema": False, "tools": False, "json_object": False}


async def test_missing_response_formats_are_learned_once() -> None:
    with JudgeServer(**NO_SHAPES) as server:  # type: ignore[arg-type]
        async with judge_at(server) as judge:
            assert found(await ONE.by(judge)) == TRUTH
            assert found(await ONE.by(judge)) == TRUTH
        formats = [call.format for call in server.calls()]
    assert formats == ["json_schema", "tool", "json_object", None, None]


async def test_a_refused_temperature_is_left_out() -> None:
    with JudgeServer(temperature=False) as server:
        async with judge_at(server) as judge:
            assert found(await ONE.by(judge)) == TRUTH
            await ONE.by(judge)
        sent = ["temperature" in call.body for call in server.calls()]
        assert sent == [True, False, False]
        assert {call.format for call in server.calls()} == {"json_schema"}


async def test_lasting_failures_are_not_tried_again() -> None:
    cases: list[Any] = [
        ({"api_key": "another-key"}, "HTTP 401"),
        ({"models": ["other"]}, "HTTP 404"),
    ]
    for server, status in cases:
        with JudgeServer(**server) as running:
            finding = (await verified(running)).answer_support
            assert len(running.calls()) == 1
        assert isinstance(finding, NotScored)
        assert finding.cause is Cause.JUDGE_FAILED
        assert status in finding.detail
        assert "\n" not in finding.detail


async def test_a_refused_connection_names_the_address() -> None:
    with JudgeServer() as server:
        url = server.url
    judge = OpenAIJudge("test-model", base_url=url, retries=1)
    findings = await asyncio.wait_for(ONE.by(judge), PATIENCE)
    await judge.aclose()
    assert spent(findings).calls == pytest.approx(2)
    finding = findings.answer_support
    assert isinstance(finding, NotScored)
    assert "127.0.0.1" in finding.detail


async def test_a_stuck_endpoint_is_a_time_out() -> None:
    with JudgeServer(faults=[Fault(kind=FaultKind.HANG)]) as server:
        findings = await asyncio.wait_for(verified(server, timeout=2.0, retries=1), PATIENCE)
        assert set(found(findings).values()) == {Cause.TIMEOUT}
        assert len(server.calls()) == 2


CURABLE = tuple(kind for kind in FaultKind if kind is not FaultKind.HANG)
CUT_OFF = (FaultKind.DROP, FaultKind.CUT_BODY)


def _message(**fields: object) -> Callable[[dict[str, Any]], object]:
    def changed(made: dict[str, Any]) -> object:
        reason = fields.get("finish_reason", "stop")
        message = {**made["choices"][0]["message"], **fields}
        return {**made, "choices": [{"index": 0, "message": message, "finish_reason": reason}]}

    return changed


def _in_parts(made: dict[str, Any]) -> object:
    content = made["choices"][0]["message"]["content"]
    thought = {"type": "thinking", "thinking": [{"type": "text", "text": '{"relevance": []}'}]}
    texts = [{"type": "text", "text": part} for part in (content[:90], content[90:])]
    return _message(content=[thought, *texts], reasoning_content="So {it} is.")(made)


async def test_a_content_in_parts_is_read() -> None:
    with JudgeServer(completions=_in_parts) as server:
        assert found(await verified(server)) == TRUTH
        assert len(server.calls()) == 1


async def test_problem_of_bad_replies_is_reported() -> None:
    for completions, words in [
        (_message(content=None, refusal="I cannot help."), "it was a refusal"),
        (_message(content=None, finish_reason="content_filter"), "cut off by a filter"),
        (_message(content="", finish_reason="length"), "token limit was reached before any text"),
        (_message(content=[{"type": "image_url"}]), "it was empty"),
        (_message(content="I cannot judge this."), "it holds no JSON object"),
        (_message(content='{"answer_support": ['), "it was cut off"),
        (lambda made: {**made, "choices": []}, "it was empty"),
        (
            lambda _made: {"error": {"message": "down", "code": 502}},
            "returned an error",
        ),
        (lambda _made: "data: {}", "not a chat completion"),
    ]:
        with JudgeServer(completions=completions) as server:
            findings = await verified(server)
        for kind in ONE.wanted:
            value = getattr(findings, kind.value)
            assert isinstance(value, NotScored)
            assert value.cause is Cause.JUDGE_FAILED
            assert words in value.detail


async def test_a_fault_that_shows_once_changes_no_verdict() -> None:
    for kind in [kind for kind in CURABLE if kind not in CUT_OFF]:
        with JudgeServer(faults=[Fault(kind=kind, calls=frozenset({1}))]) as server:
            assert found(await verified(server)) == TRUTH
            assert len(server.calls()) <= 3


async def test_a_lasting_fault_never_gives_a_wrong_verdict() -> None:
    for abilities in [{}, {"json_schema": False}, NO_SHAPES]:
        for kind in CURABLE:
            with JudgeServer(faults=[Fault(kind=kind)], **abilities) as server:  # type: ignore[arg-type]
                findings = found(await verified(server, retries=0))
            assert is_right_or_absent(findings)


async def test_no_call_is_lost_from_usage() -> None:
    cases: list[Any] = [
        ([Fault(kind=FaultKind.RATE_LIMIT, calls=frozenset({1}))], {}, {}),
        ([], {}, NO_SHAPES),
        ([Fault(kind=FaultKind.REFUSAL)], {}, {}),
        ([Fault(kind=FaultKind.SERVER_ERROR)], {"retries": 1}, {}),
        ([Fault(kind=FaultKind.HANG)], {"timeout": 0.5, "retries": 1}, {}),
        ([Fault(kind=FaultKind.CUT_BODY)], {}, {}),
    ]
    for faults, options, abilities in cases:
        with JudgeServer(faults=faults, **abilities) as server:
            usage = spent(await verified(server, **options))
            assert usage.calls == pytest.approx(len(server.calls()))
            assert len(server.calls()) > 1 or faults[0].kind is FaultKind.CUT_BODY


async def test_a_key_shows_nowhere(caplog: pytest.LogCaptureFixture) -> None:
    """No repr, error, absence or log record holds the key, even if the endpoint repeats it."""
    caplog.set_level(logging.DEBUG)
    shown = []
    with JudgeServer(api_key="another-key") as server:
        async with judge_at(server, headers={"x-gateway": KEY}) as judge:
            shown += [repr(judge), repr(vars(judge)), repr(await ONE.by(judge))]
        embedder = OpenAIEmbedder("test-model", base_url=server.url, api_key=KEY)
        with pytest.raises(JudgeError) as caught:
            await embedder.embed(["text"])
        await embedder.aclose()
        shown += [repr(embedder), repr(caught.value), repr(caught.value.__cause__)]
    shown += [record.getMessage() for record in caplog.records]
    assert KEY not in "\n".join(shown)


def test_wrong_settings_are_told_at_once() -> None:
    cases: list[Any] = [
        {},
        {"api_key": "key with newline\n"},
        {"base_url": "http://localhost", "headers": {"x": "ü"}},
        {"base_url": "localhost:8000/v1"},
        {"api_key": KEY, "timeout": 0},
        {"api_key": KEY, "retries": -1},
        {"api_key": KEY, "concurrency": 0},
    ]
    for options in cases:
        with pytest.raises(ConfigError) as caught:
            OpenAIJudge("test-model", **options)
        assert "newline" not in str(caught.value)
