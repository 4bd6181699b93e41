"""A score is right or absent: cut texts, bad vectors, failing judges, criteria in a sentence."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import math
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_eval_hooks import Criterion, NotScored, RagEval, Sample, Score
from rag_eval_hooks.findings import ChunkRelevance, Findings, Questions, Support, Verdict
from rag_eval_hooks.judges.openai import OpenAIJudge
from rag_eval_hooks.sample import Context, Field
from rag_eval_hooks.score import Cause
from rag_eval_hooks.testing import ScriptedJudge
from tests.golden.measure import BY_ID
from tests.support.servers.faults import Fault, FaultKind
from tests.support.servers.judge_server import JudgeServer

SAMPLE = Sample(
    question="How long is the bridge?",
    contexts=("The bridge is 40 metres long.",),  # type: ignore[arg-type]
    answer="The bridge is 40 metres long.",
    reference="It is 40 metres long.",
)
VECTOR_METRICS = ("ragas.answer_relevancy", "graphrag.semantic_similarity_percentage")
FINDINGS = Findings(
    answer_claims=("a",), answer_support=(Support((True,)),), questions=Questions(("a", "b", "c"))
)


@pytest.mark.parametrize(
    ("cut", "missing", "value", "warnings"),
    [
        ((), 1, 0.75, 0),
        ((), 3, 0.25, 0),
        (("contexts[0].metadata.a",), 3, 0.25, 0),
        (("contexts[3].text",), 0, 1.0, 1),
        (("contexts[3].text",), 1, 1.0, 2),
        (("contexts[3].text",), 3, None, 0),
    ],
)
def test_cut_context_is_no_missing_support(
    cut: tuple[str, ...], missing: int, value: float | None, warnings: int
) -> None:
    findings = Findings(
        answer_claims=tuple("abcd"),
        answer_support=tuple(Support((number >= missing,)) for number in range(4)),
        groundedness_ratings=(2, 1 if missing else 2),
        entities=tuple("abcd"),
        entities_found=tuple(Verdict(number >= missing) for number in range(4)),
    )
    ids = ("ragas.faithfulness", "nvidia.response_groundedness", "ragas.context_entity_recall")
    with RagEval(metrics=ids, judge=ScriptedJudge(findings)) as evals:
        outcomes = evals.evaluate(dataclasses.replace(SAMPLE, truncated=cut))
    share, rating, recall = (outcomes[name] for name in ids)
    for one in (share, recall):
        assert (one.value, len(one.warnings)) == (value, warnings)
        assert value is not None or "max_text_chars" in one.detail  # type: ignore[union-attr]
    assert (rating.value is None) is (cut == ("contexts[3].text",) and missing > 0)


@pytest.mark.parametrize("cut", [0, 1, None])
def test_a_chunk_that_limits_cut_is_never_useless(cut: int | None) -> None:
    relevance = (ChunkRelevance(False, 0), ChunkRelevance(True, 90), ChunkRelevance(True, 90))
    names = () if cut is None else (f"contexts[{cut}].text",)
    sample = dataclasses.replace(
        SAMPLE, contexts=tuple(Context(text=text) for text in "abc"), truncated=names
    )
    judge = ScriptedJudge(Findings(relevance=relevance))
    with RagEval(metrics=["graphrag.ragas_context_precision"], judge=judge) as evals:
        outcome = evals.evaluate(sample)["graphrag.ragas_context_precision"]
    assert isinstance(outcome, Score)
    assert outcome.value == (100.0 if cut == 0 else pytest.approx(200 / 3))
    assert bool(outcome.warnings) is (cut is not None)


@pytest.mark.parametrize("field", ["answer", "reference"])
def test_a_cut_text_marks_every_metric_that_reads_it(field: str) -> None:
    for truncated in ((), (field,)):
        with RagEval(metrics=["all"], embedder=Vectors()) as evals:
            outcomes = evals.evaluate(dataclasses.replace(SAMPLE, truncated=truncated))
        scores = {name: one for name, one in outcomes.items() if isinstance(one, Score)}
        marked = {
            n
            for n, one in scores.items()
            if any(f"incomplete {field}" in told for told in one.warnings)
        }
        reads = {n for n in scores if Field(field) in BY_ID[n].needs}
        assert marked >= reads if truncated else not marked


class Vectors:
    name = "own"

    def __init__(self, bad: Sequence[float] = (0.5, 1.0), load: float = 0.0) -> None:
        self._bad, self._load = bad, load
        self.loads = 0

    async def warm_up(self) -> None:
        self.loads += 1
        await asyncio.sleep(self._load if self.loads == 1 else 0.0)

    async def embed(self, texts: Sequence[str]) -> Any:
        return numpy.array([*([1.0, 0.5] for _ in texts[1:]), [*self._bad]])

    async def aclose(self) -> None:
        pass


@pytest.mark.parametrize("vector", [(math.nan, math.nan), (0.5, math.inf)])
def test_a_vector_that_is_not_finite_is_no_likeness(vector: tuple[float, float]) -> None:
    judge = ScriptedJudge(FINDINGS)
    with RagEval(VECTOR_METRICS, judge=judge, embedder=Vectors(vector)) as evals:
        outcomes = evals.evaluate(SAMPLE)
    for outcome in outcomes.values():
        assert isinstance(outcome, NotScored)
        assert outcome.cause is Cause.JUDGE_FAILED
        assert "NaN or infinity" in outcome.detail


def test_loading_a_model_takes_no_time_of_the_sample() -> None:
    embedder = Vectors(load=4.0)
    judge = ScriptedJudge(FINDINGS)
    with RagEval(VECTOR_METRICS, judge=judge, embedder=embedder, sample_timeout=3.0) as evals:
        outcomes = evals.evaluate(SAMPLE)
    assert all(isinstance(outcome, Score) for outcome in outcomes.values())
    idle = Vectors()
    with RagEval(["ragas.faithfulness"], judge=judge, embedder=idle) as evals:
        evals.evaluate(SAMPLE)
    assert idle.loads == 0


def test_a_judge_that_fails_is_visible_at_once(caplog: pytest.LogCaptureFixture) -> None:
    count = 4
    with (
        JudgeServer(faults=[Fault(kind=FaultKind.ONLY_PROSE)]) as server,
        caplog.at_level(logging.WARNING),
    ):
        judge = OpenAIJudge("m", base_url=server.url, api_key="k", retries=0)
        host = urlsplit(server.url).netloc
        with RagEval(["lexical", "ragas.faithfulness"], judge=judge, embedder="none") as evals:
            for _ in range(count):
                evals.submit(SAMPLE)
            assert evals.flush(300)
            stats = evals.stats()
    assert stats.failed == {"partial": count}
    assert stats.scored == 0
    assert stats.offered == count
    assert stats.failures == {"ragas.faithfulness: judge_failed": count}
    lines = [r.getMessage() for r in caplog.records if "openai:m" in r.getMessage()]
    lines = [line for line in lines if host in line and "judge_failed" in line]
    assert len(lines) == 1


# Criteria in one sentence, judged over HTTP: each alone, whatever else is measured.


WORD = st.text("abcdefghijk", min_size=3, max_size=8)
SENTENCE = st.lists(WORD, min_size=3, max_size=6).map(lambda words: " ".join(words).capitalize())


@pytest.fixture(scope="module")
def server() -> Any:
    with JudgeServer() as judge:
        yield judge


def evaluator(server: JudgeServer, *metrics: Any, **more: Any) -> RagEval:
    endpoint: dict[str, Any] = {"judge_base_url": server.url, "judge_api_key": "k"}
    return RagEval(metrics, judge="openai:test", embedder="none", **endpoint, **more)


@given(st.lists(SENTENCE, min_size=2, max_size=4, unique=True), st.data())
@settings(max_examples=15, deadline=None)
def test_value_says_whether_the_answer_meets_it(
    server: JudgeServer, sentences: list[str], data: st.DataObject
) -> None:
    *said, asked = sentences
    asked = data.draw(st.sampled_from([*said, asked]))
    sample = Sample(question="q?", contexts=(asked,), answer=". ".join(said) + ".")  # type: ignore[arg-type]
    criterion, values, calls = Criterion(f"{asked}.", name="own"), [], []
    for metrics in ([criterion], ["ragas.faithfulness", Criterion("is polite"), criterion]):
        with evaluator(server, *metrics) as evals:
            before = len(server.calls())
            outcome = evals.evaluate(sample)["criterion.own"]
            calls.append(len(server.calls()) - before)
        assert isinstance(outcome, Score)
        assert outcome.label == ("met" if outcome.value else "not met")
        assert outcome.usage.calls == 1
        values.append(outcome.value)
    assert calls[0] == 1
    assert values == [float(asked in said)] * 2


def test_answer_without_text_cut_or_unread_meets_and_misses_nothing(server: JudgeServer) -> None:
    cut = {"answer": "Thirty days", "truncated": ("answer",)}
    cases: list[tuple[dict[str, Any], Cause]] = [
        ({"answer": " "}, Cause.UNDEFINED),
        ({"answer": None}, Cause.MISSING_INPUT),
        (cut, Cause.UNDEFINED),
    ]
    with evaluator(server, Criterion("Notice is in writing", name="own")) as evals:
        for fields, cause in cases:
            outcome = evals.evaluate(Sample(question="q", **fields))["criterion.own"]
            assert isinstance(outcome, NotScored)
            assert (outcome.cause, outcome.undecided) == (cause, fields is cut)
    with RagEval([Criterion("is polite")]) as evals:
        outcome = evals.evaluate(question="q", answer="Gladly.")["criterion.is_polite"]
    assert isinstance(outcome, NotScored)
    assert outcome.detail.endswith("configure an LLM judge")
