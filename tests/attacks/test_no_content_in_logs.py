"""Content of samples and keys of judges stand nowhere but where they belong."""

from __future__ import annotations

import json
import traceback
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from rag_eval_hooks import (
    Context,
    Metric,
    OpenAIJudge,
    RagEval,
    RagEvalConfig,
    RagEvalError,
    Sample,
)
from rag_eval_hooks.capture import RunKind
from rag_eval_hooks.judges.memo import Memo
from tests.support.servers.faults import Fault, FaultKind
from tests.support.servers.judge_server import JudgeServer

CANARY = "canary-content-7f3a"
KEY = "canary-key-91c2"
ID = "canary-id-55d0"
"""Of a user or session: viewers group spans by it."""
FULL = Sample(
    question=f"Is {CANARY} open?",
    contexts=(Context(text=f"The {CANARY} opens.", id=CANARY, metadata={"m": CANARY}),),
    answer=f"Yes: {CANARY} opens at nine.",
    reference=f"The {CANARY} opens.",
    question_id=CANARY,
    user_id=ID,
    session_id=ID,
    tags=(CANARY,),
    metadata={"m": CANARY},
)


def _judge(server: JudgeServer, **options: Any) -> OpenAIJudge:
    return OpenAIJudge(
        "m", base_url=server.url, api_key=KEY, headers={"X-Gateway": KEY}, retries=1, **options
    )


def _settings(server: JudgeServer, **changes: Any) -> RagEvalConfig:
    values = {
        "judge": "openai:m",
        "judge_base_url": server.url,
        "judge_api_key": KEY,
        "judge_headers": {"X-Gateway": KEY},
        "judge_timeout": 0.5,
        "embedder": "openai:e",
        **changes,
    }
    return RagEvalConfig(**values)


def _run(config: RagEvalConfig, **options: Any) -> tuple[list[str], list[str]]:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    told: list[str] = []
    evals = RagEval(config=config, tracer_provider=provider, **options)
    with evals:
        _interaction(evals)
        # Ids of user and session are on a RAG span by design.
        evals.submit(replace(FULL, user_id="u1", session_id="s1"))
        evals.flush(300)
        try:
            outcomes = evals.evaluate(FULL)
        except RagEvalError as error:
            told += traceback.format_exception(error)
        else:
            told += [repr(getattr(outcome, "detail", "")) for outcome in outcomes.values()]
        explained = evals.explain(FULL.sample_id)
        told += [*everything(evals), *map(str, explained), *map(repr, explained)]
    spans = [json.dumps([s.name, dict(s.attributes or {})]) for s in exporter.get_finished_spans()]
    assert spans
    return told, spans


def _interaction(evals: RagEval) -> None:
    recorder = evals.recorder
    told = {"reference": FULL.reference, "m": CANARY, "question_id": CANARY}
    root = recorder.start(1, None, RunKind.CHAIN, "help", told, [CANARY])
    assert root is not None
    root.query, root.text = FULL.question, FULL.answer
    run = recorder.start(2, 1, RunKind.RETRIEVER, "store")
    assert run is not None
    run.query = FULL.question
    recorder.documents(run, FULL.contexts or ())
    recorder.end(run)
    recorder.end(root)


def everything(evals: RagEval) -> list[str]:
    told = [evals, evals.stats(), evals.incidents.counts(), evals.config]
    return [*map(repr, [*told, evals.config.model_dump(), *vars(evals).values()])]


def leaks(lines: list[str], *secrets: str) -> list[str]:
    return [line[:300] for line in lines if any(secret in line for secret in secrets)]


def assert_no_leak(told: list[str], spans: list[str], *keys: str) -> None:
    assert leaks(told, CANARY, ID, KEY, *keys) == []
    assert leaks(spans, CANARY, KEY, *keys) == []


def _raise(*_: Any) -> Any:
    raise RuntimeError(f"{CANARY} {KEY}")


@pytest.mark.parametrize("kind", [None, *FaultKind])
def test_nothing_leaks_whatever_the_judge_does(kind: FaultKind | None, logged: list[str]) -> None:
    faults = [] if kind is None else [Fault(kind=kind)]
    with JudgeServer(faults=faults) as server:
        judge = _judge(server, timeout=1.0 if kind is FaultKind.HANG else 60.0)
        metrics = ["ragas.faithfulness", "nvidia.answer_accuracy"]
        told, spans = _run(_settings(server), metrics=metrics, judge=judge)
    assert logged
    assert_no_leak([*logged, *told], spans)


@pytest.mark.parametrize("config", [{"judge_api_key": "wrong-key"}, {"judge": "openai:gone"}])
def test_nothing_leaks_of_refused_keys(config: dict[str, str], logged: list[str]) -> None:
    with JudgeServer(api_key=KEY, models=["m", "e"]) as server:
        told, spans = _run(_settings(server, **config), metrics=["ragas"])
    assert_no_leak([*logged, *told], spans, "wrong-key")


def test_nothing_leaks_of_failing_parts(logged: list[str]) -> None:
    metric = Metric(id="own.bad", score=_raise, needs=frozenset())
    with JudgeServer() as server:
        told, spans = _run(_settings(server), metrics=["ragas", metric], sinks=[_raise])
        more, other = _run(_settings(server), metrics=["ragas"], redact=_redact)
    assert any("sink" in line for line in told)
    assert any("metric own.bad" in line for line in told)
    assert any("redaction" in line for line in more)
    # What a user's own metric raised is shown at DEBUG, with its message.
    own = [line for line in logged if "own.bad" in line or f"RuntimeError: {CANARY}" in line]
    logged = [line for line in logged if line not in own]
    assert_no_leak([*logged, *told, *more], [*spans, *other])


def _redact(text: str) -> str:
    raise RuntimeError(f"{text} {KEY}")


def test_keys_stand_in_no_file(tmp_path: Path, logged: list[str]) -> None:
    with JudgeServer() as server:
        config = _settings(server, capture_content=True, sinks=[f"jsonl:{tmp_path}/scores.jsonl"])
        judge = _judge(server, memo=Memo(tmp_path / "memo"))
        told, spans = _run(config, metrics=["ragas"], judge=judge)
    written = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    assert any(CANARY.encode() in data for data in written)
    assert not any(KEY.encode() in data for data in written)
    assert leaks([*logged, *told], CANARY, KEY) == []
    assert leaks(spans, KEY) == []
