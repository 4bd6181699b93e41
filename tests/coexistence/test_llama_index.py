"""OpenInference's instrumentor of LlamaIndex beside us."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.coexistence.shared import SCORE, Spans, evaluation_of, names, spans_of

pytest.importorskip("llama_index.core")
pytest.importorskip("openinference.instrumentation.llama_index")
pytest.importorskip("rag_eval_hooks_llama_index")

pytestmark = pytest.mark.long

shapes = pytest.mark.parametrize("shape", ["query", "aquery", "stream", "own_stream"])
orders = pytest.mark.parametrize("first", [True, False], ids=["ours first", "theirs first"])


def world(*, wrap: bool, first: bool, ours: bool) -> dict[str, Any]:
    return spans_of("llama_index_app.py", json.dumps({"wrap": wrap, "first": first, "ours": ours}))


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
