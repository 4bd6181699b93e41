"""Laws that hold through a fleet as well: redaction, injection, and scores right or absent."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from rag_eval_hooks import MemorySink, NotScored, Outcomes, RagEval, RagEvalConfig, Sample, Score
from rag_eval_hooks.findings import Findings, Support
from rag_eval_hooks.judges.openai import OpenAIJudge
from rag_eval_hooks.testing import ScriptedJudge
from tests.contract.test_right_or_absent import FINDINGS, SAMPLE, VECTOR_METRICS, Vectors
from tests.injection.attacks import ATTACKS
from tests.injection.mounting import HARMLESS, METRICS, attacked, raised, tokens_of
from tests.injection.obedient import Obedient
from tests.redaction.cases import CASES
from tests.servers.brokers import REDIS, RedisServer
from tests.servers.faults import REPLY_FAULTS, Fault, FaultKind
from tests.servers.judge_server import JudgeServer
from tests.support.fleet import working
from tests.support.size import size
from tests.support.variation import seeds

pytest.importorskip("celery")
pytestmark = pytest.mark.skipif(REDIS is None, reason="needs Debian's redis-server")


def by_fleet(
    redis: RedisServer, metrics: Sequence[str], samples: Sequence[Sample], **settings: Any
) -> list[Outcomes]:
    """Return the outcomes that workers sent back to an application with these settings."""
    sink = MemorySink()
    shipping: dict[str, Any] = {"evaluator": "celery", "broker": redis.url, "results": "return"}
    with RagEval(
        metrics, sinks=sink, embedder="none", hold_timeout=60, **shipping, **settings
    ) as evals:
        assert all(map(evals.offer, samples))
        assert evals.flush(120)
        assert evals.stats().shipped == 0
    got = {one.sample.sample_id: one.outcomes for one in sink.results}
    return [got[sample.sample_id] for sample in samples]


@pytest.mark.parametrize("place", ["application", "worker"])
@pytest.mark.parametrize("seed", seeds(size(1, 5)))
def test_nothing_that_is_redacted_reaches_judge_or_sink(
    redis: RedisServer, seed: int, place: str
) -> None:
    """Text that a rule takes out is in no judge's request and in no result.

    Whether the application redacts, or only the worker that gets its samples.
    """
    cases = random.Random(seed).sample([case for case in CASES if case.wanted], 16)
    samples = [
        Sample(
            question=f"What stands here? {case.plain}",
            contexts=(case.plain, "It leaves at noon."),  # type: ignore[arg-type]
            answer=f"It leaves at noon. {case.plain}",
        )
        for case in cases
    ]
    rules: dict[str, Any] = {"redact": ["all", "ip"]}
    sink = MemorySink()
    with JudgeServer() as server:
        judge = OpenAIJudge("m", base_url=server.url, api_key="k")
        config = RagEvalConfig(embedder="none", **(rules if place == "worker" else {}))
        worker = RagEval("ragas.faithfulness", judge, sinks=sink, config=config)
        with working(redis, worker):
            given = rules if place == "application" else {}
            by_fleet(redis, ["ragas.faithfulness"], samples, **given)
        told = [json.dumps(one.body, ensure_ascii=False) for one in server.requests]
    assert len(told) >= 16
    told += [repr(one) for one in sink.results]
    assert len(sink.results) == 16
    for case in cases:
        for secret in case.wanted:
            written = json.dumps(secret, ensure_ascii=False)[1:-1]
            assert not [text for text in told if secret in text or written in text], case


@pytest.mark.parametrize("seed", seeds(1))
def test_no_attack_gets_through_a_worker(redis: RedisServer, seed: int) -> None:
    """A judge of a worker that obeys what stands outside the delimiters finds nothing to obey."""
    attacks = random.Random(seed).sample(ATTACKS, size(40, len(ATTACKS)))
    obedient = Obedient()
    with JudgeServer(replies=obedient, keep=False) as server:
        judge = OpenAIJudge("m", base_url=server.url, api_key="k", breaker_failures=10**6)
        with working(redis, RagEval(METRICS, judge, embedder="none")):
            (usual,) = by_fleet(redis, METRICS, [HARMLESS])
            obedient.learning = False
            tokens = tokens_of(obedient)
            samples = [
                replace(attacked(attack, tokens[attack.token]), sample_id=f"attack-{number}")
                for number, attack in enumerate(attacks)
            ]
            got = by_fleet(redis, METRICS, samples)
    assert any(isinstance(outcome, Score) for outcome in usual.values())
    assert obedient.obeyed == 0
    assert [attack for attack, one in zip(attacks, got, strict=True) if raised(one, usual)] == []


@pytest.mark.parametrize("seed", seeds(size(1, 4)))
def test_what_limits_cut_stays_known_to_the_worker(redis: RedisServer, seed: int) -> None:
    """A sample whose contexts were cut has through a fleet the outcomes that it has without."""
    chance = random.Random(seed)
    missing = chance.randint(1, 3)
    findings = Findings(
        answer_claims=tuple("abcd"),
        answer_support=tuple(Support((number >= missing,)) for number in range(4)),
        groundedness_ratings=(2, 1),
    )
    ids = ("ragas.faithfulness", "nvidia.response_groundedness")
    cuts = ["", "contexts", "contexts[3].text", "contexts[0].metadata.a"]
    samples = [
        replace(SAMPLE, truncated=(cut,) if cut else (), sample_id=f"cut-{seed}-{number}")
        for number, cut in enumerate(cuts)
    ]
    with RagEval(ids, ScriptedJudge(findings), embedder="none") as inline:
        wanted = [inline.evaluate(sample) for sample in samples]
    with working(redis, RagEval(ids, ScriptedJudge(findings), embedder="none")):
        assert list(map(plain, by_fleet(redis, ids, samples))) == list(map(plain, wanted))
    assert plain(wanted[0]) != plain(wanted[1])


@pytest.mark.parametrize("seed", seeds(size(1, 2)))
def test_bad_vectors_and_failing_judges_of_a_worker_give_no_score(
    redis: RedisServer, seed: int
) -> None:
    """A worker whose judge or embedder fails gives a right score or the reason of its absence."""
    chance = random.Random(seed)
    sample = replace(SAMPLE, sample_id=f"bad-{seed}")
    embedder = Vectors(chance, chance.choice([float("nan"), float("inf")]))
    with working(redis, RagEval(VECTOR_METRICS, ScriptedJudge(FINDINGS), embedder=embedder)):
        (outcomes,) = by_fleet(redis, VECTOR_METRICS, [sample])
    for outcome in outcomes.values():
        assert isinstance(outcome, NotScored)
        assert "finite" in outcome.detail
    metrics = ["ragas.faithfulness", "lexical.keyword_coverage"]
    kinds = [FaultKind.SERVER_ERROR, FaultKind.DROP, *REPLY_FAULTS]
    for kind in [None, *chance.sample(kinds, size(3, len(kinds)))]:
        faults = [] if kind is None else [Fault(kind=kind)]
        with JudgeServer(faults=faults) as server:
            judge = OpenAIJudge("m", base_url=server.url, api_key="k", retries=0)
            with working(redis, RagEval(metrics, judge, embedder="none")):
                (outcomes,) = by_fleet(redis, metrics, [replace(sample, sample_id=f"{kind}")])
        judged, counted = (outcomes[name] for name in metrics)
        if kind is None:
            right = judged
        assert isinstance(counted, Score)
        assert isinstance(right, Score)
        assert isinstance(judged, NotScored) or judged.value == right.value, kind


def plain(outcomes: Outcomes) -> dict[str, tuple[object, ...]]:
    """Return the outcomes without the reasons of the draw that chose them."""
    return {
        name: (one.value, one.warnings) if isinstance(one, Score) else (one.cause, one.detail)
        for name, one in outcomes.items()
    }
