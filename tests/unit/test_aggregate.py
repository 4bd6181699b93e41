"""Many outcomes in few numbers."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_eval_hooks import NotScored, Outcome, Sample, Score
from rag_eval_hooks.results.aggregate import EXCELLENT, RULES, Group, aggregate, rules_met
from rag_eval_hooks.score import UNIT, Cause, Scale

PERCENT = Scale(0, 100)
CLASS = "graphrag.answer_class"
GRADE = "graphrag.factual_accuracy_percentage"
EXACT = "lexical.exact_match"
KEYWORDS = "lexical.keyword_coverage"
ABSENT = NotScored(Cause.UNDEFINED)


def sample(**metadata: object) -> Sample:
    return Sample(question="q", metadata=metadata)


def labelled(label: str) -> Score:
    return PERCENT.score(100.0 * (label == "CORRECT"), label=label)


def group(levels: Mapping[str, float]) -> Group:
    outcomes: dict[str, Outcome] = {metric: UNIT.score(level) for metric, level in levels.items()}
    return aggregate([(sample(), outcomes)])[None]


METHODS = {"local_search": (6, 2, 0), "basic_search": (6, 2, 0), "llm_with_context": (5, 2, 1)}


def test_the_classes_of_the_seed() -> None:
    """24 answers by three methods: 17 CORRECT, 6 WRONG, 1 DON'T KNOW, and each method's own."""
    results = [
        (sample(method=method), {CLASS: labelled(label)})
        for method, counts in METHODS.items()
        for label, count in zip(("CORRECT", "WRONG", "DON'T KNOW"), counts, strict=True)
        for _ in range(count)
    ]
    whole = aggregate(results)[None]
    assert list(whole.counts.items()) == [
        ("correct_answers_count", 17),
        ("wrong_answers_count", 6),
        ("dont_know_answers_count", 1),
    ]
    assert whole.metrics[CLASS].mean == pytest.approx(70.8, abs=0.05)
    by_method = aggregate(results, by="method")
    assert {key: tuple(g.counts.values()) for key, g in by_method.items()} == METHODS


def test_the_grades_of_the_seed() -> None:
    """24 answers: 12 A, 1 B, 3 C, 4 D, 4 E; a grade that nobody has is 0."""
    counts = {"A": 12, "B": 1, "C": 3, "D": 4, "E": 4}
    results = [
        (sample(), {GRADE: PERCENT.score(50, label=letter)})
        for letter, count in counts.items()
        for _ in range(count)
    ]
    assert aggregate(results)[None].grades == counts
    assert aggregate(results[:12])[None].grades == {"A": 12, "B": 0, "C": 0, "D": 0, "E": 0}


@given(st.lists(st.one_of(st.floats(0, 1), st.sampled_from(Cause)), min_size=1))
def test_absences_are_counted_and_in_no_mean(values: list[float | Cause]) -> None:
    """Mean, best and worst are those of the scores alone; every sample is counted once."""
    results: list[tuple[Sample, dict[str, Outcome]]] = [
        (sample(), {"m": NotScored(v) if isinstance(v, Cause) else UNIT.score(v)}) for v in values
    ]
    summary = aggregate(results)[None].metrics["m"]
    scores = [v for v in values if not isinstance(v, Cause)]
    assert summary.scored + sum(summary.absences.values()) == len(values)
    assert summary.scored == len(scores)
    assert summary.mean == (pytest.approx(sum(scores) / len(scores)) if scores else None)
    assert (summary.best, summary.worst) == ((max(scores), min(scores)) if scores else (None, None))


def test_best_is_lowest_where_lower_is_better() -> None:
    """Best and worst follow the metric's direction, the mean stays in its scale."""
    error = Scale(0, 1, higher_is_better=False)
    results = [(sample(), {"m": error.score(value)}) for value in (0.1, 0.5, 0.9)]
    summary = aggregate(results)[None].metrics["m"]
    assert (summary.best, summary.worst) == (0.1, 0.9)
    assert summary.mean == pytest.approx(0.5)
    assert summary.normalised_mean == pytest.approx(0.5)


def test_any_key_groups() -> None:
    """By a key of the metadata or a function; samples without it are a group of their own."""
    samples = (sample(kind=1), sample(kind="1"), sample(), sample(kind=2))
    nothing: dict[str, Outcome] = {}
    results = [(each, nothing) for each in samples]
    assert {key: g.samples for key, g in aggregate(results, by="kind").items()} == {
        "1": 2,
        None: 1,
        "2": 1,
    }
    by_length = aggregate(results, by=lambda each: len(each.metadata))
    assert {key: g.samples for key, g in by_length.items()} == {"1": 3, "0": 1}


@pytest.mark.parametrize(
    ("levels", "expected"),
    [
        ({EXACT: 0.9, KEYWORDS: 0.2}, "exact but incomplete"),
        ({EXACT: 0.1, KEYWORDS: 0.9}, "right but phrased otherwise"),
        ({KEYWORDS: 0.9, "lexical.number_match": 0.2}, "right concepts, wrong numbers"),
        ({"lexical.source_citation": 0.3, EXACT: 0.6}, "sources not named"),
        ({EXACT: 0.9, "ragas.faithfulness": 0.3}, "matches the reference, not the contexts"),
        ({EXACT: 0.9, "ragas.faithfulness": 0.8}, EXCELLENT.name),
    ],
)
def test_a_group_meets_the_rules_of_the_seed(levels: dict[str, float], expected: str) -> None:
    """Each rule is met by the pattern of means that it names, and by no other here."""
    assert [rule.name for rule in rules_met(group(levels))] == [expected]


def test_no_rule_is_met_without_scores() -> None:
    """An absent metric is neither high nor low, and the middle is neither."""
    absent = aggregate([(sample(), {metric: ABSENT for rule in RULES for metric in rule.low})])
    assert rules_met(absent[None]) == ()
    assert rules_met(group({"lexical.source_citation": 0.6, "ragas.faithfulness": 0.6})) == ()


def test_thresholds_can_be_chosen() -> None:
    """What counts as high and low is the caller's to say."""
    levels = {KEYWORDS: 0.7, EXACT: 0.55}
    assert rules_met(group(levels)) == ()
    assert [rule.name for rule in rules_met(group(levels), high=0.7, low=0.6)] == [
        "right but phrased otherwise"
    ]
