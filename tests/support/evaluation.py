"""Samples, findings and judges that most tests can use as they are."""

from __future__ import annotations

from typing import Any, Final

from rag_eval_hooks import RagEval, Sample, Stats
from rag_eval_hooks.capture import RunKind
from rag_eval_hooks.findings import Findings, Support
from rag_eval_hooks.sample import Context
from rag_eval_hooks.testing import ScriptedJudge

FAITHFUL: Final = Findings(answer_claims=("a",), answer_support=(Support((True,)),))
"""One claim, supported: a faithfulness of 1."""


def faithful_judge(**options: Any) -> ScriptedJudge:
    return ScriptedJudge(FAITHFUL, **options)


class StuckJudge(ScriptedJudge):
    def __init__(self) -> None:
        super().__init__(FAITHFUL, latency=600)
        self.replies = 0

    async def make(self, *call: Any) -> Findings:
        findings = await super().make(*call)
        self.replies += 1
        return findings


def sample(**fields: Any) -> Sample:
    return Sample(**({"question": "q", "contexts": ("c",), "answer": "a"} | fields))


def record_request(
    evals: RagEval,
    name: str = "request",
    attributes: dict[str, Any] | None = None,
    workflow: str = "app",
) -> None:
    recorder = evals.recorder
    root = recorder.start(name, None, RunKind.CHAIN, workflow, attributes or {})
    assert root is not None
    root.query, root.text = "q", "a"
    run = recorder.start(f"{name}, retriever", name, RunKind.RETRIEVER, "store")
    assert run is not None
    recorder.documents(run, [Context(text="a chunk")])
    recorder.end(run)
    recorder.end(root)


def total(stats: Stats) -> int:
    counted = stats.scored + stats.sampled_out + stats.shipped + stats.pending
    return counted + sum(stats.dropped.values()) + sum(stats.failed.values())
