"""Laws of the judge over a function."""

from __future__ import annotations

import asyncio
import json
import threading
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from rag_eval_hooks.errors import ConfigError
from rag_eval_hooks.findings import Findings
from rag_eval_hooks.judges.callable_judge import CallableJudge, Messages
from rag_eval_hooks.judges.memo import Memo
from rag_eval_hooks.score import Cause, NotScored
from rag_eval_hooks.suppress import is_suppressed, suppressed
from tests.servers.brain import truthful_reply
from tests.servers.samples import ONE, TRUTH, found, spent
from tests.support.scripts import run_script

SECRET = "the-content-of-a-sample"


def told(messages: Messages) -> str:
    return json.dumps(truthful_reply({"messages": messages}))


async def told_async(messages: Messages) -> str:
    await asyncio.sleep(0)
    return told(messages)


class Told:
    async def __call__(self, messages: Messages) -> str:
        return told(messages)


def started(messages: Messages) -> Any:
    return told_async(messages)


async def verified(function: Any, **options: Any) -> Findings:
    judge = CallableJudge(function, **options)
    try:
        return await ONE.by(judge)
    finally:
        await judge.aclose()


FUNCTIONS: list[Any] = [told, told_async, Told(), started, partial(told_async), lambda m: told(m)]


async def test_any_function_of_messages_is_a_judge() -> None:
    for function in FUNCTIONS:
        findings = await verified(function)
        assert found(findings) == TRUTH
        assert spent(findings).calls == pytest.approx(1)


async def stream(messages: Messages) -> Any:
    yield messages


def test_judge_function_with_wrong_arguments_is_rejected() -> None:
    function: Any
    for function in ["gpt", None, lambda a, b: a, lambda: "", stream, str]:
        with pytest.raises(ConfigError, match="messages"):
            CallableJudge(function)


def test_a_memo_needs_a_name() -> None:
    with pytest.raises(ConfigError, match="name"):
        CallableJudge(lambda m: told(m), memo=Memo())
    assert CallableJudge(told, name="mine", memo=Memo()).name == "callable:mine"


async def test_judge_function_error_text_is_not_used() -> None:

    def failing(_messages: Messages) -> str:
        raise RuntimeError(SECRET)

    finding = (await verified(failing)).answer_support
    assert isinstance(finding, NotScored)
    assert finding.cause is Cause.JUDGE_FAILED
    assert "RuntimeError" in finding.detail
    assert SECRET not in finding.detail


@pytest.mark.parametrize("blocking", [False, True])
async def test_a_stuck_function_is_a_time_out(blocking: bool) -> None:
    release = threading.Event()
    returned: list[str] = []

    async def stuck_async(_messages: Messages) -> str:
        await asyncio.sleep(600)
        returned.append("reply")
        return ""

    def stuck(_messages: Messages) -> str:
        release.wait(600)
        returned.append("reply")
        return ""

    judge = CallableJudge(stuck if blocking else stuck_async, timeout=0.1, concurrency=1)
    for _ in range(2):
        assert set(found(await ONE.by(judge)).values()) == {Cause.TIMEOUT}
    assert returned == []
    release.set()
    await judge.aclose()


@pytest.mark.parametrize("blocking", [False, True])
async def test_calls_are_quiet_where_the_evaluator_is(blocking: bool) -> None:
    marks: list[bool] = []

    def ask(messages: Messages) -> str:
        marks.append(is_suppressed())
        return told(messages)

    async def ask_async(messages: Messages) -> str:
        return ask(messages)

    with suppressed():
        await verified(ask if blocking else ask_async)
    assert marks == [True]


def test_a_stuck_function_does_not_keep_the_process(tmp_path: Path) -> None:
    code = """
        import asyncio, time
        from rag_eval_hooks.judges.callable_judge import CallableJudge
        from tests.servers.samples import ONE
        judge = CallableJudge(lambda messages: time.sleep(600), timeout=0.1)
        asyncio.run(ONE.by(judge))
    """
    assert run_script(tmp_path, code) == ""
