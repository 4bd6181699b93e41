"""Check judge, embedder and token scorer by one small real call each."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from rag_eval_hooks.cli.doctor.result import CheckResult, CheckStatus, Setup
from rag_eval_hooks.config.settings import RagEvalConfig
from rag_eval_hooks.errors import JudgeError
from rag_eval_hooks.findings import Finding, Findings
from rag_eval_hooks.judges import (
    Embedder,
    Judge,
    TokenScorer,
    choose_embedder,
    choose_judge,
    choose_token_scorer,
)
from rag_eval_hooks.judges.llm import LLMJudge
from rag_eval_hooks.sample import Context, Sample
from rag_eval_hooks.score import AnnotatorKind, NotScored

__all__ = ["check_embedder", "check_judge", "check_token_scorer"]

_CLAIM: Final = "The library opens at nine."
_SAMPLE: Final = Sample(
    question="When does the library open?",
    contexts=(Context(text=_CLAIM), Context(text="Dogs must wait outside.")),
    answer=_CLAIM,
)
_FAULT = "the endpoint has a fault of its own: look at its log, or wait"
_ADDRESS = "check judge_base_url, which mostly ends with /v1: no API of OpenAI's kind answers"
_ADVICE = {
    "error of the endpoint": _FAULT,
    "no chat completion": _ADDRESS,
    "valid reply": "the model does not keep the shape; try another model",
    "HTTP 401": "set judge_api_key (RAG_EVAL_JUDGE_API_KEY, or OPENAI_API_KEY)",
    "HTTP 403": "check what judge_api_key may do, and the model in judge",
    "HTTP 404": "check the model in judge, and judge_base_url",
    "HTTP 429": "wait, or lower judge_concurrency and sample_rate; check the account's credit",
    "HTTP 5": _FAULT,
    "no JSON": _ADDRESS,
    "the connection": "check judge_base_url, and that the endpoint runs and can be reached",
    "no reply": "check that the endpoint answers, or raise judge_timeout",
}


def check_judge(setup: Setup) -> Iterator[CheckResult]:
    """Ask the judge about a claim that a chunk states word for word."""
    try:
        judge = choose_judge(_for_one_call(setup), None, retries=0)
        if judge.annotator_kind is not AnnotatorKind.LLM:
            yield CheckResult(CheckStatus.OK, f"{judge.name}: embedded rules, no key, no network")
        else:
            yield asyncio.run(_ask(judge))
    except JudgeError as error:
        yield _problem(str(error))


def _for_one_call(setup: Setup) -> RagEvalConfig:
    """Return the settings for one call, without prices."""
    timeout = min(setup.config.judge_timeout, setup.timeout)
    return setup.config.model_copy(update={"judge_timeout": timeout, "judge_prices": None})


async def _ask(judge: Judge) -> CheckResult:
    start = time.monotonic()
    try:
        wanted = frozenset({Finding.ANSWER_SUPPORT})
        findings = await judge.make(_SAMPLE, wanted, Findings(answer_claims=(_CLAIM,)))
    finally:
        await judge.aclose()
    return _judged(judge, findings, time.monotonic() - start)


def _judged(judge: Judge, findings: Findings, seconds: float) -> CheckResult:
    support = findings.answer_support
    used = findings.usage[Finding.ANSWER_SUPPORT]
    if isinstance(support, NotScored):
        return _problem(support.detail)
    figures: dict[str, float | str] = {
        "seconds": round(seconds, 3),
        "input_tokens": used.input_tokens,
        "output_tokens": used.output_tokens,
        "requests": used.calls,
    }
    text = (
        f"{judge.name} replied in {seconds:.2f} s, {used.input_tokens:g} tokens in, "
        f"{used.output_tokens:g} out"
    )
    mode = judge.output_mode if isinstance(judge, LLMJudge) else None
    if mode is not None:
        figures["shape"] = mode.value
        text += f", shape asked for by {mode.value}"
    if support[0].by_chunk != (True, False):
        text += "; but it misjudged a claim that one chunk states word for word"
        advice = "its scores will be of little worth; choose another model"
        return CheckResult(CheckStatus.WARNING, text, advice, figures)
    return CheckResult(CheckStatus.OK, text, figures=figures)


def check_embedder(setup: Setup) -> Iterator[CheckResult]:
    """Embed two short texts."""
    try:
        embedder = choose_embedder(_for_one_call(setup), retries=0)
        if embedder is None:
            yield CheckResult(CheckStatus.NOTE, "none: metrics by similarity have no value")
        else:
            yield asyncio.run(_embed(embedder))
    except JudgeError as error:
        problem = _problem(str(error))
        advice = f"{problem.advice or 'check the endpoint'}; or set embedder to another, or to none"
        yield replace(problem, advice=advice)


async def _embed(embedder: Embedder) -> CheckResult:
    start = time.monotonic()
    try:
        vectors = await embedder.embed(["The library opens at nine.", "Dogs wait outside."])
    finally:
        await embedder.aclose()
    seconds = time.monotonic() - start
    text = f"{embedder.name} gave {len(vectors[0])} dimensions in {seconds:.2f} s"
    figures = {"seconds": round(seconds, 3), "dimensions": len(vectors[0])}
    return CheckResult(CheckStatus.OK, text, figures=figures)


def check_token_scorer(setup: Setup) -> Iterator[CheckResult]:
    """Score two short texts; the model is loaded for that."""
    try:
        scorer = choose_token_scorer(setup.config)
        if scorer is not None:
            yield asyncio.run(_score(scorer))
    except JudgeError as error:
        yield _problem(str(error))


async def _score(scorer: TokenScorer) -> CheckResult:
    start = time.monotonic()
    try:
        score = await scorer.score("The library opens at nine.", "It opens at nine.")
    finally:
        await scorer.aclose()
    seconds = time.monotonic() - start
    text = f"{scorer.name} gave F1 {score.f1:.3f} in {seconds:.2f} s, loading included"
    return CheckResult(CheckStatus.OK, text)


def _problem(text: str) -> CheckResult:
    advice = next((advice for sign, advice in _ADVICE.items() if sign in text), "")
    return CheckResult(CheckStatus.FAILED, text, advice)
