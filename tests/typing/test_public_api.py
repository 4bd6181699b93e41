"""The public interface as an application types it: checked by mypy, and run."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import rag_eval_hooks
from rag_eval_hooks import (
    Cause,
    Context,
    NotScored,
    Outcomes,
    RagEval,
    RagEvalConfig,
    Sample,
    Score,
    Stats,
)
from rag_eval_hooks.config.keywords import ArgumentKeywords, SettingKeywords
from rag_eval_hooks.testing import Findings, MemorySink, ScriptedJudge, Support

WITH_AN_EXTRA = ("OpenAIEmbedder", "OpenAIJudge", "Patterns", "RagEvalSpanProcessor")


def collect(sample: Sample, outcomes: Outcomes) -> None:
    """A sink as a user writes it."""
    for name, outcome in outcomes.items():
        told: float | Cause = outcome.value if isinstance(outcome, Score) else outcome.cause
        assert name
        assert told is not None


def test_an_application_types_without_ignores() -> None:
    """Everything a user touches has the type that the documents promise."""
    judge = ScriptedJudge(Findings(answer_claims=("a",), answer_support=(Support((True,)),)))
    sink = MemorySink()
    evals: RagEval = RagEval(
        metrics=["ragas.faithfulness"],
        judge=judge,
        sample_rate=1.0,
        sinks=[sink, collect],
        config=RagEvalConfig(queue_size=10),
    )
    sample = Sample(question="q", contexts=(Context(text="c"),), answer="a")
    accepted: bool = evals.offer(sample)
    idle: bool = evals.flush(5.0)
    outcomes: Mapping[str, Score | NotScored] = evals.evaluate(sample)
    stats: Stats = evals.stats()
    assert (accepted, idle, stats.scored, len(sink.results)) == (True, True, 1, 1)
    assert isinstance(outcomes["ragas.faithfulness"], Score)
    evals.shutdown()


def test_every_public_name_is_typed() -> None:
    """The file that mypy checks uses every public name."""
    used = ast.parse(Path(__file__).with_name("api.py").read_text(encoding="utf-8"))
    imported = {
        alias.name
        for node in ast.walk(used)
        if isinstance(node, ast.ImportFrom) and node.module == "rag_eval_hooks"
        for alias in node.names
    }
    assert sorted(imported) == sorted([*rag_eval_hooks.__all__, *WITH_AN_EXTRA])


def test_every_setting_is_a_typed_keyword() -> None:
    keywords = {*ArgumentKeywords.__annotations__} | {*SettingKeywords.__annotations__}
    assert keywords == {*RagEvalConfig.model_fields, "config_file"}
    arguments = {*inspect.signature(RagEval).parameters} - {"given"}
    assert keywords == {*SettingKeywords.__annotations__} | (arguments & keywords)


def test_every_public_name_exists() -> None:
    """`__all__` names what there is, sorted, once."""
    names = rag_eval_hooks.__all__
    assert list(names) == sorted(set(names))
    assert all(hasattr(rag_eval_hooks, name) for name in (*names, *WITH_AN_EXTRA))


def test_a_star_import_needs_no_extra() -> None:
    """`import *` brings names that need no extra, and works where none is installed."""
    hide = "sys.modules['openai'] = sys.modules['opentelemetry.sdk'] = None"
    code = f"import sys; {hide}; from rag_eval_hooks import *; RagEval"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert not {*WITH_AN_EXTRA} & {*rag_eval_hooks.__all__}
