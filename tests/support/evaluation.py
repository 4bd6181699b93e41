"""Samples, findings and judges that most tests can use as they are."""

from __future__ import annotations

from typing import Any, Final

from rag_eval_hooks import RagEval, Sample
from rag_eval_hooks.capture import RunKind
from rag_eval_hooks.sample import Context
from rag_eval_hooks.testing import Findings, ScriptedJudge, Support

__all__ = ["FAITHFUL", "faithful_judge", "record_request", "sample"]

FAITHFUL: Final = Findings(answer_claims=("a",), answer_support=(Support((True,)),))
"""One claim, supported: a faithfulness of 1."""


def faithful_judge(**options: Any) -> ScriptedJudge:
    """Return a judge that finds one supported claim in every answer."""
    return ScriptedJudge(FAITHFUL, **options)


def sample(**fields: Any) -> Sample:
    """Return a short sample; fields replace its own."""
    return Sample(**({"question": "q", "contexts": ("c",), "answer": "a"} | fields))


def record_request(
    evals: RagEval, name: str = "request", attributes: dict[str, Any] | None = None
) -> None:
    """Record a request with one retrieved chunk, as an integration does."""
    recorder = evals.recorder
    root = recorder.start(name, None, RunKind.CHAIN, "app", attributes or {})
    assert root is not None
    root.query, root.text = "q", "a"
    run = recorder.start(f"{name}, retriever", name, RunKind.RETRIEVER, "store")
    assert run is not None
    recorder.documents(run, [Context(text="a chunk")])
    recorder.end(run)
    recorder.end(root)
