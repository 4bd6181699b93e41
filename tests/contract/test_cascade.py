"""Laws of `Cascade`: what is sent on, who says so, and what becomes of failures."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_eval_hooks import Cascade, NotScored, RagEval, Sample
from rag_eval_hooks.errors import JudgeError
from rag_eval_hooks.findings import ClaimVerdict, Finding, Findings, Support, Verdict, made
from rag_eval_hooks.score import AnnotatorKind, Cause
from rag_eval_hooks.testing import JudgeCall, ScriptedJudge
from tests.support.judge_task import JudgeTask

ALL = frozenset({Finding.ANSWER_SUPPORT, Finding.ANSWER_AGREEMENT, Finding.ENTITIES_FOUND})


class Model(ScriptedJudge):
    name = "model"
    annotator_kind = AnnotatorKind.LLM
    version = "m1"


def yes(call: JudgeCall) -> Findings:
    claims = len(made(call.known.answer_claims))
    yeses: dict[str, Any] = {
        "answer_support": (Support((True,), reason="model"),) * claims,
        "answer_agreement": (Verdict(True, "model"),) * claims,
        "entities_found": (Verdict(True, "model"),) * len(made(call.known.entities)),
    }
    return Findings(**{kind.value: yeses[kind.value] for kind in call.wanted})


def task_of(count: int, seed: int = 0) -> JudgeTask:
    items = tuple(f"item {seed} {number}" for number in range(count))
    return JudgeTask(
        wanted=ALL, question="q", chunks=("c",), reference="r", answer_claims=items, entities=items
    )


KINDS = st.sampled_from([ClaimVerdict.NOT_STATED, ClaimVerdict.UNSURE])
SUPPORTS = st.builds(Support, st.just((False,)), verdict=KINDS, probability=st.floats(0, 1))
VERDICTS = st.builds(Verdict, st.just(False), sure=st.booleans())


@given(st.lists(st.tuples(SUPPORTS, VERDICTS, VERDICTS), min_size=1, max_size=8))
def test_cascade_sends_on_only_doubtful_verdicts(
    rows: list[tuple[Support, Verdict, Verdict]],
) -> None:
    support, agreement, found = zip(*rows, strict=True)
    script = Findings(answer_support=support, answer_agreement=agreement, entities_found=found)
    model = Model(yes)
    cascade = Cascade(ScriptedJudge(script), model, floor=0.0)
    findings = asyncio.run(task_of(len(rows)).by(cascade))
    doubts = 0
    for kind in ALL:
        for before, after in zip(getattr(script, kind), getattr(findings, kind), strict=True):
            is_close = before.probability is not None and 0.3 < before.probability < 0.7
            doubts += is_close or not before.sure
            if is_close or not before.sure:
                assert (after.reason, after.judge, after.sent_on) == ("model", "model", 1.0)
            elif after.judge:
                assert (after.judge, after.sent_on) == ("scripted", 0.0)
            assert after.sure
    assert len(model.calls) == bool(doubts)


async def test_the_floor_sends_its_share() -> None:
    count, floor = 3000, 0.1
    script = Findings(
        answer_support=(Support((False,)),) * count,
        answer_agreement=(Verdict(False),) * count,
        entities_found=(Verdict(False),) * count,
    )
    runs = []
    for _ in range(2):
        cascade = Cascade(ScriptedJudge(script), Model(yes), floor=floor)
        findings = await task_of(count).by(cascade)
        assert not isinstance(findings.answer_support, NotScored)
        runs.append([one.judge == "model" for one in findings.answer_support])
        assert {one.sent_on for one in findings.answer_support} == {floor}
    assert runs[0] == runs[1]
    assert abs(sum(runs[0]) / count - floor) < 5 * (floor * (1 - floor) / count) ** 0.5


@pytest.mark.parametrize("error", [JudgeError("down"), ValueError("of the user's own")])
async def test_a_judge_that_fails_is_replaced_by_the_first_and_takes_nothing_as_the_second(
    error: Exception,
) -> None:
    cascade = Cascade(ScriptedJudge(error=error), Model(yes))
    findings = await task_of(2).by(cascade)
    assert made(findings.answer_support) == (Support((True,), reason="model"),) * 2
    assert {maker.name for makers in findings.by.values() for maker in makers} == {"model"}
    script = Findings(
        answer_support=(Support((False,), verdict=ClaimVerdict.UNSURE), Support((True,))),
        answer_agreement=(Verdict(True), Verdict(True)),
        entities_found=(Verdict(True), Verdict(True)),
        classification=Verdict(False, sure=False),
        geval=NotScored(Cause.MISSING_INPUT, "no rubric"),
    )
    cascade = Cascade(ScriptedJudge(script), Model(error=error), floor=1.0)
    wanted = ALL | {Finding.CLASSIFICATION, Finding.GEVAL}
    findings = await replace(task_of(2), wanted=wanted).by(cascade)
    for kind in wanted - {Finding.GEVAL}:
        assert getattr(findings, kind) == getattr(script, kind)
    assert isinstance(findings.geval, NotScored)
    assert findings.geval.cause is Cause.JUDGE_FAILED


def test_a_score_says_who_gave_it() -> None:
    doubt = Support((False,), verdict=ClaimVerdict.UNSURE)
    sure = Support((True,))
    sample = Sample(question="q", contexts=("c",), answer="a")  # type: ignore[arg-type]
    for first, annotator, kind, judges in (
        (sure, "scripted", AnnotatorKind.CODE, [None] * 3),
        (doubt, "scripted > model", AnnotatorKind.LLM, ["model", "scripted", "scripted"]),
    ):
        found = Findings(answer_claims=("a", "b", "c"), answer_support=(first, sure, sure))
        cascade = Cascade(ScriptedJudge(found), Model(yes), floor=0.0)
        with RagEval(["ragas.faithfulness"], judge=cascade, embedder="none") as evals:
            outcome = evals.evaluate(sample)["ragas.faithfulness"]
        assert (outcome.annotator, outcome.annotator_kind) == (annotator, kind)
        assert [row.get("judge") for row in outcome.explanation["claims"]] == judges
