"""Laws of the decision judge, over real HTTP in both wire formats."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from rag_eval_hooks import Cascade, DecisionJudge, NotScored, Outcome, RagEval, Sample, Score
from rag_eval_hooks.findings import ClaimVerdict, Finding, Findings, made
from rag_eval_hooks.judges.memo import Memo
from rag_eval_hooks.prompts.specs import SPECS
from rag_eval_hooks.score import Cause
from tests.support.corpus import EIGHT, planted, samples
from tests.support.evaluation import record_request
from tests.support.judge_task import JudgeTask
from tests.support.otel import Spans
from tests.support.servers.decision_server import DecisionServer
from tests.support.servers.samples import GRADE, LONG_VERIFY, VERIFY, verdicts
from tests.support.size import size

KINDS = ("openai-decisions", "systemone")
DECIDED = frozenset(kind for kind, spec in SPECS.items() if spec.is_decision)


def judge_of(server: DecisionServer, kind: str = KINDS[0], **options: Any) -> DecisionJudge:
    return DecisionJudge(f"{kind}:m", **{"base_url": server.url, "api_key": "k", **options})


def evals_of(server: DecisionServer, judge: Any, **options: Any) -> RagEval:
    address = {"judge_base_url": server.url, "judge_api_key": "k", "embedder": "none"}
    return RagEval(options.pop("metrics", EIGHT), judge, **{**address, **options})


async def asked(server: DecisionServer, task: JudgeTask, **options: Any) -> Findings:
    judge = judge_of(server, **options)
    try:
        return await task.by(judge)
    finally:
        await judge.aclose()


def values(outcomes: Mapping[str, Outcome]) -> dict[str, object]:
    return {
        name: round(one.value, 9) if isinstance(one, Score) else one.cause
        for name, one in outcomes.items()
    }


@pytest.mark.parametrize(
    ("kind", "count", "metrics"),
    [
        (KINDS[0], size(8, 2_000), EIGHT),
        (KINDS[1], size(8, 200), EIGHT),
        (KINDS[1], 8, (EIGHT[0], "whitepaper", "graphrag")),
    ],
)
async def test_scores_equal_those_of_an_llm_judge(
    kind: str, count: int, metrics: tuple[str, ...]
) -> None:
    """With one request for a sample, no output tokens, and probabilities in `risk`.

    Two metrics of the white paper decide by one finding which finding they read.
    """
    drawn, options = [*planted(count)], {"metrics": metrics}
    drawn[1] = replace(drawn[1], answer="I do not know.", reference="I do not know.")
    with DecisionServer() as server:
        judges = (f"{kind}:m", "openai:m")
        evals, other = (evals_of(server, judge, **options) for judge in judges)
        with evals, other:
            for at in range(0, len(drawn), 8):
                some = drawn[at : at + 8]
                found = await asyncio.gather(*map(evals.aevaluate, some))
                expected = await asyncio.gather(*map(other.aevaluate, some))
                assert [*map(values, found)] == [*map(values, expected)]
        assert len(server.decisions()) == (1 if metrics == EIGHT else 2) * len(drawn)
    assert {one["ragas.faithfulness"].risk for one in found} <= {None, 1 - 0.97, 1 - (1 - 0.97)}
    assert not any(one.usage.output_tokens for one in found[0].values())


@pytest.mark.parametrize("window", [60, 46])
async def test_long_contexts_are_asked_about_in_parts(window: int) -> None:
    task = replace(LONG_VERIFY, wanted=LONG_VERIFY.wanted & DECIDED | GRADE.wanted)
    with DecisionServer() as server:
        true, found = await asked(server, task), await asked(server, task, window=window)
        for kind in task.wanted - GRADE.wanted:
            pairs = [*zip(getattr(found, kind), getattr(true, kind), strict=True)]
            assert all(verdicts([a]) == verdicts([b]) for a, b in pairs if a.sure), kind
            assert kind is Finding.ANSWER_SUPPORT or any(a.sure for a, _ in pairs)
    (whole, *_) = made(found.answer_support)
    assert whole.verdict is ClaimVerdict.UNSURE
    assert isinstance(found.context_ratings, NotScored)
    assert isinstance(found.accuracy_ratings, tuple)


async def test_no_claim_has_more_than_400_questions() -> None:
    chunks, claims = tuple(f"Page {n:03}." for n in range(420)), ("Page 333", "Page 007")
    task = replace(VERIFY, chunks=chunks, answer_claims=claims)
    with DecisionServer() as server:
        found = await asked(server, replace(task, wanted=frozenset({Finding.ANSWER_SUPPORT})))
    for page, one in zip((333, 7), made(found.answer_support), strict=True):
        assert [at for at, on in enumerate(one.by_chunk) if on] == [page]


async def test_request_that_is_too_long_for_the_server_is_absent() -> None:
    with DecisionServer(longest=100) as server:
        found = await asked(server, replace(LONG_VERIFY, wanted=LONG_VERIFY.wanted & DECIDED))
    absent = [getattr(found, kind) for kind in LONG_VERIFY.wanted & DECIDED]
    assert {one.cause for one in absent} == {Cause.JUDGE_FAILED}


def test_budget_memo_and_undecidable_metrics_are_as_for_every_judge() -> None:
    (first,) = samples(1)
    with DecisionServer() as server:
        with evals_of(server, judge_of(server, memo=Memo()), metrics=(*EIGHT, "ragas")) as evals:
            once, again = evals.evaluate(first), evals.evaluate(first)
        with evals_of(server, "systemone:m", budget={"calls_per_day": 1}) as evals:
            _, over = evals.evaluate(first), evals.evaluate(first)
        assert len(server.decisions()) == 2
    assert values(once) == values(again)
    lacking = {name: one.cause for name, one in once.items() if isinstance(one, NotScored)}
    assert lacking == {"ragas.answer_relevancy": Cause.MISSING_INPUT}
    screening = {name for name, one in once.items() if getattr(one, "screening", False)}
    assert screening == {"ragas.context_entity_recall"}
    assert {getattr(one, "cause", None) for one in over.values()} == {Cause.OVER_BUDGET}


def test_request_is_a_decision_span() -> None:
    spans, shown = Spans(), {"trace_judge": True, "evaluation_span": "child"}
    with DecisionServer() as server:
        name = "openai-decisions:gpt-6-luna"
        with evals_of(server, name, tracer_provider=spans.provider, **shown) as evals:
            record_request(evals)
            assert evals.flush(300)
    (told,) = [one.attributes or {} for one in spans.all() if "decis" in one.name]
    assert told["openinference.span.kind"] == "DECISION"
    assert told["gen_ai.operation.name"] == "decision"
    assert told["gen_ai.provider.name"] == "openai"
    assert told["gen_ai.request.model"] == "gpt-6-luna"


def test_key_goes_only_to_the_endpoint_that_it_was_set_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-openai")
    monkeypatch.setenv("TYPESAFE_API_KEY", "sk-typesafe")
    (sample,) = samples(1)
    with DecisionServer() as server, DecisionServer() as other:
        monkeypatch.setenv("OPENAI_BASE_URL", other.url)
        monkeypatch.setenv("TYPESAFE_BASE_URL", server.url.removesuffix("/v1"))
        with RagEval(EIGHT, Cascade("systemone:jev", "openai:m", floor=1.0)) as evals:
            evals.evaluate(sample)
        keys = [one.headers["authorization"] for one in server.requests]
        assert {one.headers["authorization"] for one in other.requests} == {"Bearer sk-openai"}
    assert keys == ["Bearer sk-typesafe"]


def test_cascade_asks_the_second_judge_about_claims_inside_the_band() -> None:
    draw, drawn, chances = random.Random(11), list[Sample](), dict[str, float]()
    for number in range(40):
        claim = f"Mill {number} stands by the river {draw.randint(100, 999)}."
        chances[claim] = draw.random()
        fields = {"question": "Where?", "contexts": ["No."], "answer": claim}
        drawn.append(Sample.from_dict(fields))
    with DecisionServer(planted=chances) as server:
        cascade = Cascade(f"systemone:{server.url}", "openai:m", floor=0.0)
        with evals_of(server, cascade, metrics=EIGHT[:1]) as evals:
            for one in drawn:
                evals.evaluate(one)
        assert len(server.decisions()) == len(drawn)
        assert len(server.calls()) == sum(0.3 < p < 0.7 for p in chances.values())
