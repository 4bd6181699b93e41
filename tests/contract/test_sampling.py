"""Laws of sampling, with a real evaluator: what is chosen, how likely, and the books."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from statistics import fmean, stdev
from typing import Any

import pytest

from rag_eval_hooks import (
    AskedMetric,
    ConfigError,
    Metric,
    NotScored,
    RagEval,
    RagEvalConfig,
    Sample,
    Score,
    Status,
)
from rag_eval_hooks.capture import RunKind
from rag_eval_hooks.incidents import Incidents
from rag_eval_hooks.judges.heuristic import LocalJudge
from rag_eval_hooks.metrics import ALL_METRICS
from rag_eval_hooks.metrics.example import SAMPLE
from rag_eval_hooks.sampling.tail import cheap_metrics
from rag_eval_hooks.score import UNIT
from rag_eval_hooks.testing import Findings, MemorySink, Rating, ScriptedJudge, Support, Verdict
from tests.support.size import size

CLAIMS = Findings(
    answer_claims=("a",),
    answer_support=(Support((True,)),),
    answer_agreement=(Verdict(True),),
    correctness=Rating(4.0),
)
METRICS = ["ragas.faithfulness", "lexical"]
FAITH, WORDS = "ragas.faithfulness", "lexical.keyword_coverage"
RIGHT = "The quay opened in 1931."
WRONG = "Bananas are yellow."
Make = Callable[..., RagEval]


def quay(**fields: Any) -> Sample:
    values = {"question": "When did the quay open?", "contexts": ("c",), "answer": RIGHT}
    return Sample(**(values | {"reference": RIGHT} | fields))


@pytest.fixture
def make(shut_down_after: Callable[[RagEval], RagEval]) -> Make:
    def build(
        judge: Any = None, sinks: Any = (), metrics: Any = METRICS, **settings: Any
    ) -> RagEval:
        judge = judge or ScriptedJudge(CLAIMS)
        config = RagEvalConfig(**settings)
        return shut_down_after(RagEval(metrics, judge, sinks=sinks, config=config))

    return build


def test_a_metric_that_was_left_out_is_no_cause_of_failure(make: Make) -> None:
    evals = make(metric_rates={"ragas": 0.0, "lexical": 1.0}, metrics=[FAITH, WORDS])
    one = quay(reference=None)
    evals.offer(one)
    evals.flush(300)
    assert evals.stats().failed == {"missing_input": 1}
    assert "missing_input" in str(evals.explain(one.sample_id)[0])


def test_every_outcome_tells_its_own_probability(make: Make) -> None:
    memory = MemorySink()
    evals = make(None, [memory], metric_rates={"lexical": 1.0, "ragas": 0.5})
    for _ in range(40):
        evals.offer(quay())
    evals.flush(300)
    scored = [r.outcomes[FAITH] for r in memory.results if isinstance(r.outcomes[FAITH], Score)]
    assert 0 < len(scored) < 40 == len(memory.results)
    assert {outcome.probability for outcome in scored} == {0.5}
    assert {r.outcomes[WORDS].probability for r in memory.results} == {1.0}


def test_rules_see_the_request(make: Make) -> None:
    rules = [
        {"tags": ["beta"], "rate": 1.0, "name": "beta"},
        {"metadata": {"user_id": "u1"}, "rate": 1.0, "name": "user"},
        {"latency_above": 3.0, "rate": 1.0, "name": "slow"},
    ]
    evals = make(sample_rate=0.0, rules=rules)
    told: list[dict[str, Any]] = [{"tags": ["beta"]}, {"user_id": "u1"}, {"latency": 3.5}, {}]
    assert [evals.offer(quay(**fields)) for fields in told] == [True, True, True, False]
    evals.flush(300)
    names = ("rule:beta", "rule:user", "rule:slow", "sampled_out")
    assert evals.stats().decisions == dict.fromkeys(names, 1)


def test_rules_see_the_answer_that_is_judged(make: Make) -> None:
    memory = MemorySink()
    evals = make(None, [memory], sample_rate=0.0, rules=[{"answer": "1931", "rate": 1.0}])
    for number, text in enumerate((RIGHT, WRONG)):
        with evals.interaction("When did the quay open?") as interaction:
            interaction.contexts([RIGHT])
            run = evals.recorder.start(number, None, RunKind.MODEL, "model")
            assert run is not None
            run.text = text
            evals.recorder.end(run)
    evals.flush(300)
    assert [result.sample.answer for result in memory.results] == [RIGHT]
    assert evals.stats().decisions == {"rule:1": 1, "sampled_out": 1}


def test_an_error_rule_evaluates_what_needs_no_answer(make: Make) -> None:
    memory = MemorySink()
    evals = make(None, [memory], rules=[{"error": "Timeout", "rate": 1.0}])
    assert not evals.offer(quay(status=Status.ERROR, error_type="KeyError"))
    assert evals.offer(quay(status=Status.ERROR, error_type="ReadTimeout"))
    evals.flush(300)
    assert evals.stats().dropped == {"error": 1}
    assert memory.results[0].sample.answer is None
    assert all(isinstance(o, NotScored) for o in memory.results[0].outcomes.values())


def test_metadata_that_cannot_be_read_loses_nothing(make: Make) -> None:
    class Broken:
        def __str__(self) -> str:
            raise RuntimeError("host")

    evals = make(sample_rate=1.0, rules=[{"metadata": {"k": "v"}, "rate": 0.0}])
    assert evals.offer(quay(metadata={"k": Broken()}))
    evals.flush(300)
    stats = evals.stats()
    assert (stats.scored, stats.incidents) == (1, {"rules: RuntimeError": 1})


SUSPECT = {"metric": WORDS, "below": 0.5, "then": ["ragas"]}


def test_every_dont_know_is_evaluated(make: Make) -> None:
    memory = MemorySink()
    evals = make(None, [memory], sample_rate=0.0, tail=[{"dont_know": True, "then": "ragas"}])
    for answer in ("I don't know.", RIGHT, None):
        evals.offer(quay(answer=answer))
    evals.flush(300)
    assert [r.sample.answer for r in memory.results] == ["I don't know."]
    assert memory.results[0].outcomes[FAITH].reason == "tail:dont_know"


def test_the_cheap_stage_asks_no_judge(make: Make) -> None:
    judge, memory = ScriptedJudge(CLAIMS), MemorySink()
    tail = [{"metric": FAITH, "below": 0.5, "then": ["ragas"], "name": "unfaithful"}]
    evals = make(judge, [memory], sample_rate=0.0, tail=tail)
    evals.offer(quay(contexts=(RIGHT,), answer=RIGHT))
    evals.flush(300)
    assert judge.calls == []
    evals.offer(quay(contexts=(RIGHT,), answer="The quay opened in 1977 and sank in 1980."))
    evals.flush(300)
    assert len(judge.calls) > 0
    assert memory.results[0].outcomes[FAITH].reason == "tail:unfaithful"
    assert memory.results[0].outcomes[FAITH].value == 1.0


def test_conditions_are_the_metrics_that_the_embedded_judge_scores() -> None:
    evals = RagEval("all", LocalJudge(), config=RagEvalConfig(embedder="none"))
    outcomes = evals.evaluate(SAMPLE)
    evals.shutdown()
    scored = {name for name, outcome in outcomes.items() if isinstance(outcome, Score)}
    cheap = cheap_metrics(ALL_METRICS, Incidents())
    assert cheap.keys() == scored - {"whitepaper.weighted_score"}


@pytest.mark.parametrize(
    ("rule", "field"),
    [
        ({"then": ["ragas"]}, "tail[0]"),
        ({"then": ["ragas"], "metric": WORDS}, "tail[0]"),
        ({"then": ["ragas"], "dont_know": True, "thumbs_down": True}, "tail[0]"),
        ({"then": ["ragas"], "dont_know": True, "below": 3}, "tail[0]"),
        ({"dont_know": True}, "tail[0].then"),
        ({"then": [], "dont_know": True}, "tail[0].then"),
        ({"then": ["raggas"], "dont_know": True}, "tail[0].then"),
        ({"then": ["ragas"], "metric": "nvidia.answer_accuracy", "below": 1}, "tail[0].metric"),
        ({"then": ["ragas"], "metric": "lexical", "below": 1}, "tail[0].metric"),
    ],
)
def test_a_wrong_tail_rule_is_refused_at_start(rule: dict[str, Any], field: str) -> None:
    with pytest.raises(ConfigError) as caught:
        RagEval(METRICS, ScriptedJudge(), config=RagEvalConfig(tail=[rule]))
    assert caught.value.field == field


def test_a_metric_that_asks_somebody_is_no_condition() -> None:
    async def ask(_sample: Sample) -> Score:
        return UNIT.score(0.0)

    own = AskedMetric(id="my.own", ask=ask, needs=frozenset())
    rule = {"metric": "my.own", "below": 0.5, "then": ["all"]}
    with pytest.raises(ConfigError) as caught:
        RagEval([own], ScriptedJudge(), config=RagEvalConfig(tail=[rule]))
    assert caught.value.field == "tail[0].metric"


def test_the_rate_limit_drops_and_counts(make: Make) -> None:
    memory = MemorySink()
    evals = make(None, [memory], rate_limit={"minute": 5})
    assert sum(evals.offer(quay()) for _ in range(50)) == 5
    evals.flush(300)
    stats = evals.stats()
    assert (stats.scored, stats.dropped) == (5, {"rate_limit": 45})
    outcome = memory.results[-1].outcomes[WORDS]
    assert outcome.probability_estimated
    assert outcome.probability == 1.0


@pytest.mark.parametrize("tail", [[], [SUSPECT]])
def test_a_full_queue_enters_the_probability(make: Make, tail: list[Any]) -> None:
    gate, memory = threading.Event(), MemorySink()

    def hold(sample: Sample) -> float:
        gate.wait(120)
        return 1.0

    evals = make(None, [memory], metrics=[hold], queue_size=10, judge_concurrency=1, tail=tail)
    offered = random.Random(3).randint(50, 80)
    first = sum(evals.offer(quay()) for _ in range(offered))
    assert first < 12
    gate.set()
    evals.flush(300)
    for _ in range(100):
        assert evals.offer(quay())
        evals.flush(300)
    outcomes = [next(iter(one.outcomes.values())) for one in memory.results]
    weights = [1.0 / outcome.probability for outcome in outcomes if outcome.probability]
    assert len(weights) == first + 100
    assert sum(weights) == pytest.approx(offered + 100, rel=0.01)
    estimated = [outcome.probability_estimated for outcome in outcomes]
    assert not estimated[0]
    assert estimated[first]
    assert not estimated[-1]


def test_the_rate_limit_holds_for_tail_rules_too(make: Make) -> None:
    evals = make(sample_rate=0.0, tail=[SUSPECT], rate_limit={"minute": 2})
    for answer in (RIGHT, WRONG, RIGHT, WRONG, WRONG, WRONG):
        evals.offer(quay(answer=answer))
    evals.flush(300)
    stats = evals.stats()
    assert (stats.scored, stats.sampled_out, stats.dropped) == (2, 2, {"rate_limit": 2})


def _value(sample: Sample, _findings: Findings) -> Score:
    return UNIT.score(sample.metadata["value"])


def _stream(seed: int) -> Iterator[Sample]:
    """Requests whose score depends on what rules and tail rules go by."""
    draw = random.Random(seed)
    for _ in range(300):
        beta, latency = draw.random() < 0.2, draw.random() * 5
        value = 0.2 + 0.4 * draw.random() + (0.4 if beta else 0.0) - 0.03 * latency
        told = {"tags": ("beta",) * beta, "latency": latency, "metadata": {"value": value}}
        yield quay(**told)


def test_weighted_means_are_unbiased() -> None:
    metrics = [
        Metric(id="my.cheap", score=_value, needs=frozenset()),
        Metric(id="my.costly", score=_value, needs=frozenset()),
    ]
    config = RagEvalConfig(
        sample_rate=0.05,
        metric_rates={"my.costly": 0.1},
        rules=[
            {"tags": ["beta"], "metrics": ["my.costly"], "rate": 0.6},
            {"latency_above": 4.0, "rate": 0.05},
        ],
        tail=[{"metric": "my.cheap", "below": 0.25, "then": ["my.costly"]}],
        queue_size=10_000,
    )
    stream = list(_stream(3))
    truth = sum(one.metadata["value"] for one in stream) / len(stream)
    weighted, plain = [], []
    memory = MemorySink()
    with RagEval(metrics, ScriptedJudge(), sinks=[memory], config=config) as evals:
        for repeat in range(size(40, 60)):
            memory.results.clear()
            for number, one in enumerate(stream):
                evals.offer(replace(one, sample_id=f"{repeat} {number}"))
            assert evals.flush(300)
            outcomes = [result.outcomes["my.costly"] for result in memory.results]
            scores = [outcome for outcome in outcomes if isinstance(outcome, Score)]
            weighted.append(sum(s.value / (s.probability or 0) for s in scores) / len(stream))
            plain.append(fmean(score.value for score in scores))
    error = stdev(weighted) / len(weighted) ** 0.5
    assert abs(fmean(weighted) - truth) < 4 * error
    assert abs(fmean(plain) - truth) > 5 * error
