"""Other instrumentors of LangChain beside us: no doubled spans, scores where people look."""

from __future__ import annotations

import functools
import importlib.util
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any, TypeAlias

import pytest

SCORE = "rag.eval.ragas.faithfulness.score"
PACKAGES = {
    "openinference": "openinference.instrumentation.langchain",
    "traceloop": "opentelemetry.instrumentation.langchain",
    "official": "opentelemetry.instrumentation.genai.langchain",
    "langfuse": "langfuse.langchain",
}
SHAPES = ("lcel", "classic", "graph")
Spans: TypeAlias = list[dict[str, Any]]


def installed(package: str) -> bool:
    try:
        return importlib.util.find_spec(package) is not None
    except ModuleNotFoundError:
        return False


names_of_instrumentors = pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.skipif(not installed(package), reason="not installed"))
        for name, package in PACKAGES.items()
    ],
)
shapes = pytest.mark.parametrize("shape", SHAPES)
orders = pytest.mark.parametrize("order", ["first", "last"])


@functools.cache
def world(name: str, wrap: bool, **config: Any) -> dict[str, Any]:
    """The spans of every shape, with the handlers in both orders."""
    done = subprocess.run(
        [
            sys.executable,
            str(Path(__file__).with_name("app.py")),
            json.dumps({"name": name, "wrap": wrap, "config": config}),
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


def carrier_of(spans: Spans) -> dict[str, Any]:
    (carrier,) = [span for span in spans if span["name"].startswith("evaluation")]
    return carrier


def is_found(name: str, shape: str) -> bool:
    """Whether their span of the root run can be found: a classic chain hides Langfuse's."""
    return (name, shape) != ("langfuse", "classic")


@orders
@shapes
@names_of_instrumentors
def test_their_rag_span_carries_the_scores(name: str, shape: str, order: str) -> None:
    """Their spans are those that they write without us, once each, and theirs has the scores."""
    calls = world(name, wrap=True)[shape]
    spans: Spans = calls[order]
    assert names(spans, ours=False) == names(calls["alone"], ours=False)
    assert len({span["id"] for span in spans}) == len(spans)
    carrier = carrier_of(spans)
    (scored,) = [span for span in spans if SCORE in span["attributes"]]
    assert scored["attributes"]["rag.eval.status"] == "ok"
    assert carrier["links"] == [scored["id"]]
    assert carrier["id"] in scored["links"]
    if is_found(name, shape):
        assert scored["scope"] != "rag_eval_hooks"
        assert names(spans, ours=True) == {carrier["name"]: 1}
    else:
        assert names(spans, ours=True) == {carrier["name"]: 1, scored["name"]: 1}
    assert calls["incidents"] == {}


@orders
@shapes
@names_of_instrumentors
def test_without_our_processor_the_carrier_has_them(name: str, shape: str, order: str) -> None:
    """Where their span cannot be kept back, the carrier links to it; nothing is doubled."""
    calls = world(name, wrap=False)[shape]
    spans: Spans = calls[order]
    assert names(spans, ours=False) == names(calls["alone"], ours=False)
    carrier = carrier_of(spans)
    assert carrier["attributes"]["evaluations.0.evaluation.score"] == 0.5
    (rag,) = [span for span in spans if span["id"] in carrier["links"]]
    assert (rag["scope"] != "rag_eval_hooks") == is_found(name, shape)


@names_of_instrumentors
def test_all_means_all(name: str) -> None:
    """Whoever asks for our spans beside theirs gets both sets, scores on ours."""
    calls = world(name, wrap=True, spans="all")["lcel"]
    assert names(calls["first"], ours=False) == names(calls["alone"], ours=False)
    assert len(names(calls["first"], ours=True)) == 4
    scored = [span["scope"] for span in calls["first"] if SCORE in span["attributes"]]
    assert scored == ["rag_eval_hooks"]


@orders
@shapes
@names_of_instrumentors
def test_what_is_not_evaluated_waits_for_nothing(name: str, shape: str, order: str) -> None:
    """A request that is sampled out is not kept back, and its spans are all there."""
    calls = world(name, wrap=True, sample_rate=0.0, hold_timeout=600)[shape]
    assert names(calls[order], ours=False) == names(calls["alone"], ours=False)
