"""Other instrumentors of LangChain beside us: no doubled spans, scores where people look."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.coexistence.shared import SCORE, Spans, evaluation_of, names, spans_of

# The applications run in a dozen processes.
pytestmark = pytest.mark.long

PACKAGES = {
    "openinference": "openinference.instrumentation.langchain",
    "traceloop": "opentelemetry.instrumentation.langchain",
    "official": "opentelemetry.instrumentation.genai.langchain",
    "langfuse": "langfuse.langchain",
}
SHAPES = ("lcel", "classic", "graph")


def installed(package: str) -> bool:
    """Look without importing what stands above it, as `find_spec` does: that takes seconds."""
    places = [Path(folder, *package.split(".")) for folder in sys.path]
    return any(place.is_dir() or place.with_suffix(".py").exists() for place in places)


HANDLERS = ("first", "last")
"""Orders of the handlers that one call is passed."""
ENABLED = ("before", "after")
"""Order of enabling for the process: we before them, or after."""


def with_name(name: str, *values: str) -> Any:
    missing = not installed(PACKAGES[name])
    return pytest.param(
        name, *values, marks=pytest.mark.skipif(missing, reason=f"{name} is not installed")
    )


names_of_instrumentors = pytest.mark.parametrize("name", list(map(with_name, PACKAGES)))
orders = pytest.mark.parametrize(
    ("name", "order"),
    # Langfuse's is a handler, which is passed.
    [
        with_name(name, order)
        for name in PACKAGES
        for order in HANDLERS + (() if name == "langfuse" else ENABLED)
    ],
)
shapes = pytest.mark.parametrize("shape", SHAPES)


def world(name: str, wrap: bool, enabled: str = "", **config: Any) -> dict[str, Any]:
    """The spans of every shape: without us, and with the handlers in both orders or enabled."""
    settings = {"name": name, "wrap": wrap, "enabled": enabled, "config": config}
    return spans_of("app.py", json.dumps(settings))


def calls_of(name: str, wrap: bool, shape: str, order: str, **config: Any) -> dict[str, Any]:
    """The spans of a shape without us, twice, and with us in some order."""
    alone: dict[str, Any] = world(name, wrap, **config)[shape]
    if order in HANDLERS:
        return alone
    with_us: dict[str, Any] = world(name, wrap, order, **config)[shape]
    return {"alone": alone["alone"], "again": alone["again"], **with_us}


def theirs(spans: Spans, calls: dict[str, Any]) -> list[Any]:
    """Their spans, with the attributes that two calls without us have alike."""
    alone, again = ({s["name"]: s["attributes"] for s in calls[c]} for c in ("alone", "again"))
    keys = {
        name: {key for key, value in attributes.items() if again[name].get(key) == value}
        for name, attributes in alone.items()
    }
    return sorted(
        (s["name"], sorted((k, v) for k, v in s["attributes"].items() if k in keys[s["name"]]))
        for s in spans
        if s["scope"] != "rag_eval_hooks"
    )


def is_found(name: str, shape: str) -> bool:
    """Whether their span of the root run can be found: a classic chain hides Langfuse's."""
    return (name, shape) != ("langfuse", "classic")


@orders
@shapes
def test_their_rag_span_carries_the_scores(name: str, shape: str, order: str) -> None:
    """Their spans are those that they write without us, once each, and theirs has the scores."""
    calls = calls_of(name, True, shape, order)
    spans: Spans = calls[order]
    assert theirs(spans, calls) == theirs(calls["alone"], calls)
    assert len({span["id"] for span in spans}) == len(spans)
    (scored,) = [span for span in spans if SCORE in span["attributes"]]
    assert scored["attributes"]["rag.eval.status"] == "ok"
    if is_found(name, shape):
        assert scored["scope"] != "rag_eval_hooks"
        assert names(spans, ours=True) == {}
    else:
        assert names(spans, ours=True) == {scored["name"]: 1}
    assert calls["incidents"] == {}


@orders
@shapes
def test_without_our_processor_a_span_below_theirs_has_them(
    name: str, shape: str, order: str
) -> None:
    """A span of ours below theirs has the scores where theirs cannot wait; nothing is doubled."""
    calls = calls_of(name, False, shape, order)
    spans: Spans = calls[order]
    assert theirs(spans, calls) == theirs(calls["alone"], calls)
    if not is_found(name, shape):
        assert [span["scope"] for span in spans if SCORE in span["attributes"]] == [
            "rag_eval_hooks"
        ]
        return
    evaluation = evaluation_of(spans)
    assert evaluation["attributes"][SCORE] == 0.5
    (rag,) = [span for span in spans if span["id"] in evaluation["links"]]
    assert rag["scope"] != "rag_eval_hooks"


@names_of_instrumentors
def test_all_means_all(name: str) -> None:
    """The setting `all` gives both sets of spans, with the scores on ours."""
    calls = world(name, wrap=True, spans="all")["lcel"]
    assert names(calls["first"], ours=False) == names(calls["alone"], ours=False)
    assert len(names(calls["first"], ours=True)) == 3
    scored = [span["scope"] for span in calls["first"] if SCORE in span["attributes"]]
    assert scored == ["rag_eval_hooks"]


@orders
@shapes
def test_span_without_evaluation_does_not_wait(name: str, shape: str, order: str) -> None:
    """A request that is sampled out is not kept back, and its spans are all there."""
    calls = calls_of(name, True, shape, order, sample_rate=0.0, hold_timeout=600)
    assert theirs(calls[order], calls) == theirs(calls["alone"], calls)
