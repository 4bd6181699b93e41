"""Other instrumentors beside us: no doubled spans, scores where people look."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.variation import run_seed

# The applications run in a dozen processes.
pytestmark = pytest.mark.long
SCORE = "rag.eval.ragas.faithfulness.score"
PACKAGES = {
    "openinference": "openinference.instrumentation.langchain",
    "traceloop": "opentelemetry.instrumentation.langchain",
    "official": "opentelemetry.instrumentation.genai.langchain",
    "langfuse": "langfuse.langchain",
    "llama_index": "openinference.instrumentation.llama_index",
}
ORDERS = {
    **dict.fromkeys(("openinference", "traceloop", "official"), ("first", "before", "after")),
    # It is a handler, which is passed.
    "langfuse": ("first", "last"),
    "llama_index": ("before", "after"),
}
"""We enabled for the process before them or after, or our handler the first or the last."""
Spans = list[dict[str, Any]]


def installed(package: str) -> bool:
    places = [Path(folder, *package.split(".")) for folder in sys.path]
    return any(place.is_dir() or place.with_suffix(".py").exists() for place in places)


orders = pytest.mark.parametrize(
    ("name", "order"),
    [
        pytest.param(
            name,
            order,
            marks=pytest.mark.skipif(not installed(PACKAGES[name]), reason=f"no {name}"),
        )
        for name, each in ORDERS.items()
        for order in each
    ],
)


@functools.cache
def run(settings: str) -> Any:
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("app.py")), settings],
        capture_output=True,
        text=True,
        timeout=300,
        env={
            "PYTHONPATH": os.pathsep.join(sys.path),
            "HOME": "/nonexistent",
            "RAGEVAL_RUN_SEED": str(run_seed()),
        },
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def world(name: str, order: str, *, wrap: bool, **config: Any) -> dict[str, Spans]:
    spans: dict[str, Any] = run(json.dumps({"name": name, "order": order, "wrap": wrap, **config}))
    assert spans["incidents"] == {}
    return {shape: found for shape, found in spans.items() if shape != "incidents"}


def names(spans: Spans, *, ours: bool) -> list[str]:
    return sorted(span["name"] for span in spans if span["is_ours"] == ours)


def is_hidden(name: str, shape: str) -> bool:
    return (name, shape) == ("langfuse", "classic")


@orders
def test_their_rag_span_carries_the_scores(name: str, order: str) -> None:
    alone = world(name, "", wrap=True)
    for shape, spans in world(name, order, wrap=True).items():
        assert names(spans, ours=False) == names(alone[shape], ours=False), shape
        assert len({span["id"] for span in spans}) == len(spans), shape
        (scored,) = [span for span in spans if SCORE in span["attributes"]]
        assert scored["attributes"]["rag.eval.status"] == "ok"
        assert scored["is_ours"] is is_hidden(name, shape), shape
        assert names(spans, ours=True) == ([scored["name"]] if scored["is_ours"] else []), shape


@orders
def test_without_our_processor_a_span_below_theirs_has_them(name: str, order: str) -> None:
    alone = world(name, "", wrap=False)
    for shape, spans in world(name, order, wrap=False).items():
        assert names(spans, ours=False) == names(alone[shape], ours=False), shape
        (scored,) = [span for span in spans if SCORE in span["attributes"]]
        assert scored["is_ours"], shape
        if not is_hidden(name, shape):
            assert (scored["name"][:10], scored["attributes"][SCORE]) == ("evaluation", 0.5)
            (rag,) = [span for span in spans if span["id"] in scored["links"]]
            assert not rag["is_ours"], shape


@orders
def test_span_without_evaluation_does_not_wait(name: str, order: str) -> None:
    alone = world(name, "", wrap=True)
    spans = world(name, order, wrap=True, sample_rate=0.0, hold_timeout=600)
    for shape, found in spans.items():
        assert names(found, ours=False) == names(alone[shape], ours=False), shape
