"""The worked numbers of the RAGAS guide, and its empty cases, through the whole evaluator."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from rag_eval_hooks import NotScored, Outcome, RagEval, Sample, Score
from rag_eval_hooks.testing import (
    ChunkRelevance,
    Findings,
    Questions,
    ScriptedJudge,
    Support,
    Verdict,
)


class TableEmbedder:
    """Looks vectors up."""

    name = "table"

    def __init__(self, vectors: dict[str, list[float]]) -> None:
        self._vectors = vectors

    async def embed(self, texts: Any) -> list[list[float]]:
        return [self._vectors[text] for text in texts]

    async def aclose(self) -> None: ...


@pytest.fixture
def evaluators() -> Iterator[list[RagEval]]:
    made: list[RagEval] = []
    yield made
    for evals in made:
        evals.shutdown()


SAMPLE = Sample(question="q", contexts=("a", "b", "c"), answer="a", reference="r")  # type: ignore[arg-type]


def outcome(
    evaluators: list[RagEval],
    metric: str,
    findings: Findings,
    sample: Sample = SAMPLE,
    vectors: dict[str, list[float]] | None = None,
) -> Outcome:
    embedder = TableEmbedder(vectors) if vectors else None
    evals = RagEval(metrics=[metric], judge=ScriptedJudge(findings), embedder=embedder)
    evaluators.append(evals)
    return evals.evaluate(sample)[metric]


def value(result: Outcome) -> float:
    assert isinstance(result, Score), result
    return result.value


def chunks(*useful: bool) -> tuple[ChunkRelevance, ...]:
    return tuple(ChunkRelevance(flag, 90.0 if flag else 5.0) for flag in useful)


def support(*rows: tuple[bool, ...]) -> tuple[Support, ...]:
    return tuple(Support(row) for row in rows)


NO = (False, False, False)
FIRST = (True, False, False)


@pytest.mark.parametrize(
    ("useful", "expected"),
    [((True, False, False), 1.0), ((False, False, True), 1 / 3), ((False, False, False), 0.0)],
)
def test_context_precision_rewards_rank(
    useful: tuple[bool, ...], expected: float, evaluators: list[RagEval]
) -> None:
    """The relevant chunk first of three gives 1.0, last of three 0.33, none 0."""
    findings = Findings(relevance=chunks(*useful))
    assert value(outcome(evaluators, "ragas.context_precision", findings)) == pytest.approx(
        expected
    )


@pytest.mark.parametrize(("rows", "expected"), [((FIRST, FIRST), 1.0), ((FIRST, NO), 0.5)])
def test_context_recall_of_two_claims(
    rows: tuple[tuple[bool, ...], ...], expected: float, evaluators: list[RagEval]
) -> None:
    """Two of two reference claims found gives 1.0, one of two 0.5."""
    findings = Findings(reference_claims=("x", "y"), reference_support=support(*rows))
    assert value(outcome(evaluators, "ragas.context_recall", findings)) == expected


@pytest.mark.parametrize(("found", "expected"), [(4, 1.0), (1, 0.25)])
def test_entity_recall_of_four(found: int, expected: float, evaluators: list[RagEval]) -> None:
    """Four of four entities found gives 1.0, one of four 0.25."""
    verdicts = tuple(Verdict(n < found) for n in range(4))
    findings = Findings(entities=("w", "x", "y", "z"), entities_found=verdicts)
    assert value(outcome(evaluators, "ragas.context_entity_recall", findings)) == expected


@pytest.mark.parametrize(("rows", "expected"), [((FIRST,), 1.0), ((NO,), 0.0)])
def test_faithfulness_of_one_claim(
    rows: tuple[tuple[bool, ...], ...], expected: float, evaluators: list[RagEval]
) -> None:
    """A supported claim gives 1.0, a hallucinated one 0.0."""
    findings = Findings(answer_claims=("x",), answer_support=support(*rows))
    assert value(outcome(evaluators, "ragas.faithfulness", findings)) == expected


def test_chunks_that_support_a_claim_together_count(evaluators: list[RagEval]) -> None:
    """A claim that only several chunks support together is supported."""
    findings = Findings(answer_claims=("x",), answer_support=(Support(NO, together=True),))
    assert value(outcome(evaluators, "ragas.faithfulness", findings)) == 1.0


@pytest.mark.parametrize(("agree", "expected"), [((True, True), 0.0), ((True, False), 0.5)])
def test_noise_sensitivity_of_two_claims(
    agree: tuple[bool, bool], expected: float, evaluators: list[RagEval]
) -> None:
    """No wrong claim gives 0, one of two 0.5; lower is better."""
    findings = Findings(
        answer_claims=("x", "y"),
        answer_support=support(FIRST, FIRST),
        answer_agreement=tuple(map(Verdict, agree)),
        relevance=chunks(True, False, False),
    )
    result = outcome(evaluators, "ragas.noise_sensitivity", findings)
    assert value(result) == expected
    assert isinstance(result, Score)
    assert result.normalised == 1 - expected


def test_noise_sensitivity_parts_add_up(evaluators: list[RagEval]) -> None:
    """Wrong claims are split by where they came from, and the parts add up to the value."""
    findings = Findings(
        answer_claims=("right", "noise", "irrelevant", "invented"),
        answer_support=support(FIRST, FIRST, (False, True, False), NO),
        answer_agreement=tuple(map(Verdict, (True, False, False, False))),
        relevance=chunks(True, False, False),
    )
    result = outcome(evaluators, "ragas.noise_sensitivity", findings)
    assert isinstance(result, Score)
    assert result.parts == {"relevant": 0.25, "irrelevant": 0.25, "unsupported": 0.25}
    assert sum(result.parts.values()) == result.value


def test_answer_relevancy_is_a_mean_cosine(evaluators: list[RagEval]) -> None:
    """The value is the mean cosine of the question and the generated questions."""
    vectors = {"q": [1.0, 0.0], "g1": [1.0, 0.0], "g2": [0.6, 0.8], "g3": [0.0, 1.0]}
    findings = Findings(questions=Questions(("g1", "g2", "g3")))
    result = outcome(evaluators, "ragas.answer_relevancy", findings, vectors=vectors)
    assert value(result) == pytest.approx((1 + 0.6 + 0) / 3)


def test_a_noncommittal_answer_is_not_relevant(evaluators: list[RagEval]) -> None:
    """An evasive answer scores 0 whatever questions it brings to mind."""
    findings = Findings(questions=Questions(("q", "q2", "q3"), noncommittal=True))
    result = outcome(evaluators, "ragas.answer_relevancy", findings, vectors={"q": [1.0]})
    assert value(result) == 0.0


EMPTY = (
    ("ragas.faithfulness", Findings(answer_claims=(), answer_support=())),
    ("ragas.context_recall", Findings(reference_claims=(), reference_support=())),
    ("ragas.context_entity_recall", Findings(entities=(), entities_found=())),
    (
        "ragas.noise_sensitivity",
        Findings(answer_claims=(), answer_agreement=(), relevance=chunks(*NO)),
    ),
)


@pytest.mark.parametrize(("metric", "findings"), EMPTY)
def test_a_share_of_nothing_is_undefined(
    metric: str, findings: Findings, evaluators: list[RagEval]
) -> None:
    """No claims or entities: no score, neither 0 nor 1."""
    result = outcome(evaluators, metric, findings)
    assert isinstance(result, NotScored)
    assert result.cause == "undefined"


@pytest.mark.parametrize(
    ("metric", "findings", "expected"),
    [
        ("ragas.faithfulness", Findings(answer_claims=("x",)), 0.0),
        ("ragas.context_recall", Findings(reference_claims=("x",)), 0.0),
        ("ragas.context_entity_recall", Findings(entities=("x",)), 0.0),
        ("ragas.context_precision", Findings(), "undefined"),
    ],
)
def test_empty_retrieval(
    metric: str, findings: Findings, expected: float | str, evaluators: list[RagEval]
) -> None:
    """Nothing retrieved supports nothing, and its precision has no value; no judge is asked."""
    sample = Sample(question="q", contexts=(), answer="a", reference="r")
    result = outcome(evaluators, metric, findings, sample)
    assert (result.value if isinstance(result, Score) else result.cause) == expected


@pytest.mark.parametrize(
    ("metric", "lacking"),
    [
        ("ragas.faithfulness", "contexts"),
        ("ragas.context_precision", "contexts"),
        ("ragas.context_recall", "contexts"),
        ("ragas.context_entity_recall", "contexts"),
        ("ragas.noise_sensitivity", "contexts"),
        ("ragas.answer_relevancy", "answer"),
        ("ragas.context_recall", "reference"),
        ("ragas.context_entity_recall", "reference"),
        ("ragas.noise_sensitivity", "reference"),
    ],
)
def test_a_missing_field_is_named(metric: str, lacking: str, evaluators: list[RagEval]) -> None:
    """A metric whose input is missing is absent, not 0, and the detail names the field."""
    fields = {"question": "q", "contexts": ("a",), "answer": "a", "reference": "r"}
    sample = Sample(**{k: v for k, v in fields.items() if k != lacking})  # type: ignore[arg-type]
    result = outcome(evaluators, metric, Findings(), sample)
    assert isinstance(result, NotScored)
    assert (result.cause, lacking in result.detail) == ("missing_input", True)
