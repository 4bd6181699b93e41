"""A faulty judge gives the right score or none, never a wrong one."""

from __future__ import annotations

import pytest

from rag_eval_hooks import NotScored, Score
from tests.servers.faults import Fault, FaultKind
from tests.servers.table import FIRST, outcomes_under, word

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
