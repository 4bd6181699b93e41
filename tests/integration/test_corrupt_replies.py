"""A faulty judge gives the right score or none, never a wrong one."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from rag_eval_hooks import NotScored, Outcome, Outcomes, RagEval, Sample, Score
from rag_eval_hooks.judges.openai import OpenAIJudge
from rag_eval_hooks.judges.openai_embedder import OpenAIEmbedder
from tests.servers.faults import Fault, FaultKind
from tests.servers.judge_server import JudgeServer
from tests.servers.samples import DECOMPOSE, VERIFY

SAMPLE = Sample(
    question=DECOMPOSE.question,
    contexts=VERIFY.chunks,  # type: ignore[arg-type]
    answer=DECOMPOSE.answer,
    reference=DECOMPOSE.reference,
)
METRICS = (
    "ragas",
    "graphrag.factual_accuracy_percentage",
    "graphrag.answer_class",
    "whitepaper.correctness",
    "nvidia",
)
"""Some of each kind of finding; no composites, whose value depends on which parts are there."""
FIRST = frozenset({1})
"""Requests that a passing fault hits; the retries and the later calls are sound."""


def outcomes_under(faults: Sequence[Fault]) -> Outcomes:
    """The outcomes of the sample with a real client against a faulty server."""
    with JudgeServer(faults=faults) as server:
        judge = OpenAIJudge("m", base_url=server.url, api_key="k", timeout=1.0, retries=1)
        embedder = OpenAIEmbedder("e", base_url=server.url, api_key="k", timeout=1.0, retries=1)
        with RagEval(metrics=METRICS, judge=judge, embedder=embedder) as evals:
            return evals.evaluate(SAMPLE)


def word(outcome: Outcome) -> str:
    """An outcome in a table cell."""
    return outcome.cause.value if isinstance(outcome, NotScored) else f"{outcome.value:.3f}"


RIGHT = {name: word(outcome) for name, outcome in outcomes_under([]).items()}
NOT_RETRIED = {FaultKind.DROP, FaultKind.CUT_BODY}
"""Faults after which the same request is not sent again: only 429, 5xx and time-outs are."""


def test_the_sound_scores_are_known() -> None:
    """The table below compares with scores that can be told by looking at the sample."""
    assert RIGHT["ragas.faithfulness"] == "0.500"
    assert RIGHT["ragas.context_recall"] == "1.000"
    assert RIGHT["ragas.context_precision"] == "1.000"
    assert RIGHT["ragas.context_entity_recall"] == "1.000"
    assert RIGHT["ragas.noise_sensitivity"] == "0.500"
    assert 0 < float(RIGHT["ragas.answer_relevancy"]) < 1


@pytest.mark.parametrize("kind", sorted(set(FaultKind) - NOT_RETRIED))
def test_a_passing_fault_costs_no_score(kind: FaultKind) -> None:
    """A fault that passes is retried or asked again, and every score is right."""
    outcomes = outcomes_under([Fault(kind=kind, calls=FIRST, retry_after="0.1")])
    assert {name: word(outcome) for name, outcome in outcomes.items()} == RIGHT


@pytest.mark.parametrize("kind", FaultKind)
def test_a_lasting_fault_gives_no_wrong_score(kind: FaultKind) -> None:
    """Under a fault that never ends, each score is right or absent with a failure as cause."""
    outcomes = outcomes_under([Fault(kind=kind, retry_after="0.1")])
    for name, outcome in outcomes.items():
        if isinstance(outcome, Score):
            # By the items that could be read, with a warning, or as with all of them.
            told = any("not counted" in warning for warning in outcome.warnings)
            assert told or word(outcome) == RIGHT[name]
        else:
            assert isinstance(outcome, NotScored)
            failed = outcome.cause in ("judge_failed", "judge_unavailable", "timeout")
            assert failed or outcome.undecided
            assert outcome.detail
