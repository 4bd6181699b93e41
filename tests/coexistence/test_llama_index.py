"""OpenInference's instrumentor of LlamaIndex beside us."""

from __future__ import annotations

import functools
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any, TypeAlias

import pytest

pytest.importorskip("llama_index.core")
pytest.importorskip("openinference.instrumentation.llama_index")
pytest.importorskip("rag_eval_hooks_llama_index")

SCORE = "rag.eval.ragas.faithfulness.score"
Spans: TypeAlias = list[dict[str, Any]]
shapes = pytest.mark.parametrize("shape", ["query", "aquery", "stream", "own_stream"])
orders = pytest.mark.parametrize("first", [True, False], ids=["ours first", "theirs first"])


@functools.cache
def world(*, wrap: bool, first: bool, ours: bool) -> dict[str, Any]:
    """The spans of every shape, in a process of its own."""
    done = subprocess.run(
        [
            sys.executable,
            str(Path(__file__).with_name("llama_index_app.py")),
            json.dumps({"wrap": wrap, "first": first, "ours": ours}),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        env={"PYTHONPATH": ":".join(sys.path), "HOME": "/nonexistent"},
    )
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def names(spans: Spans, *, ours: bool) -> Counter[str]:
    return Counter(s["name"] for s in spans if (s["scope"] == "rag_eval_hooks") == ours)


def evaluation_of(spans: Spans) -> dict[str, Any]:
    (evaluation,) = [span for span in spans if span["name"].startswith("evaluation")]
    return evaluation


@orders
@shapes
def test_their_rag_span_carries_the_scores(shape: str, first: bool) -> None:
    """Their spans are those that they write without us, once each, and theirs has the scores."""
    result = world(wrap=True, first=first, ours=True)
    spans: Spans = result[shape]
    alone: Spans = world(wrap=True, first=first, ours=False)[shape]
    assert names(spans, ours=False) == names(alone, ours=False)
    assert len({span["id"] for span in spans}) == len(spans)
    assert names(spans, ours=True) == {}
    (scored,) = [span for span in spans if SCORE in span["attributes"]]
    assert scored["scope"] != "rag_eval_hooks"
    assert result["incidents"] == {}


@orders
@shapes
def test_without_our_processor_a_span_below_theirs_has_them(shape: str, first: bool) -> None:
    """A span of ours below theirs has the scores where theirs cannot wait; nothing is doubled."""
    spans: Spans = world(wrap=False, first=first, ours=True)[shape]
    alone: Spans = world(wrap=False, first=first, ours=False)[shape]
    assert names(spans, ours=False) == names(alone, ours=False)
    evaluation = evaluation_of(spans)
    assert evaluation["attributes"][SCORE] == 0.5
    (rag,) = [span for span in spans if span["id"] in evaluation["links"]]
    assert rag["scope"] != "rag_eval_hooks"
