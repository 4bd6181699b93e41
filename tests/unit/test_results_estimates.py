"""Means over all traffic from unequal samples, and what they are made of."""

from __future__ import annotations

import math
import os
import random
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_eval_hooks import NotScored, Outcome, Sample, Score
from rag_eval_hooks.result import Evaluation
from rag_eval_hooks.results import (
    Cuts,
    Estimate,
    diagnose,
    mean_of,
    predicted_mean,
    read,
    select,
    summarise,
    worst,
)
from rag_eval_hooks.results.estimate import LEAST_LABELS, t_quantile
from rag_eval_hooks.results.render import as_html, as_markdown, as_text
from rag_eval_hooks.results.report import as_json, make_report
from rag_eval_hooks.results.select import time_of
from rag_eval_hooks.score import UNIT, Cause, Scale
from tests.support.results import evaluation, row, write_results

SEED = int(os.environ.get("RAGEVAL_SEED", "20261122"))
PERCENT = Scale(0, 100)
CLASS = "graphrag.answer_class"
GRADE = "graphrag.factual_accuracy_percentage"
FAITHFUL, RECALL = "ragas.faithfulness", "ragas.context_recall"
PRECISION, RELEVANT = "ragas.context_precision", "ragas.answer_relevancy"
EXACT, KEYWORDS = "lexical.exact_match", "lexical.keyword_coverage"
METHODS = {"local_search": (6, 2, 0), "basic_search": (6, 2, 0), "llm_with_context": (5, 2, 1)}
LABELS = ("CORRECT", "WRONG", "DON'T KNOW")


def labelled(label: str) -> Score:
    return PERCENT.score(100.0 * (label == "CORRECT"), label=label)


def holds(found: Estimate | None, truth: float) -> bool:
    """Return whether the interval has the truth in it."""
    assert found is not None
    assert found.low is not None
    assert found.high is not None
    return found.low <= truth <= found.high


@given(
    st.lists(st.tuples(st.floats(0, 1), st.floats(0.01, 1)), min_size=1, max_size=30),
    st.floats(0.5, 1000),
)
def test_the_mean_weighs_by_inverse_probability(
    drawn: list[tuple[float, float]], factor: float
) -> None:
    """Weights count by their ratio alone, the interval holds the mean and keeps to the scale."""
    values, chances = zip(*drawn, strict=True)
    weights = [1 / chance for chance in chances]
    found = mean_of(values, weights)
    assert found is not None
    by_hand = sum(w * v for w, v in zip(weights, values, strict=True)) / sum(weights)
    assert found.mean == pytest.approx(by_hand)
    assert found.raw == pytest.approx(sum(values) / len(values))
    assert found.effective_n <= found.n + 1e-6
    rescaled = mean_of(values, [factor * weight for weight in weights])
    assert rescaled is not None
    assert rescaled.mean == pytest.approx(found.mean)
    if found.low is None or found.high is None:
        assert len(values) == 1
    else:
        assert 0 <= found.low <= found.mean + 1e-9
        assert found.mean - 1e-9 <= found.high <= 1


@given(st.integers(0, 40), st.integers(2, 40))
def test_a_plain_share_has_wilsons_interval(hits: int, number: int) -> None:
    """Without weights, the interval of yes and no is Wilson's of 1927."""
    hits = min(hits, number)
    found = mean_of([float(index < hits) for index in range(number)])
    assert found is not None
    z, p = 1.959964, hits / number
    # The variance is the unbiased one, so that it counts one observation less.
    n = number - 1 if 0 < hits < number else number
    middle = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n)) / (1 + z * z / n)
    assert found.low == pytest.approx(max(0.0, middle - half), abs=1e-5)
    assert found.high == pytest.approx(min(1.0, middle + half), abs=1e-5)


def drawn_stream(design: str, chance: random.Random) -> tuple[list[Evaluation], float]:
    """Return the sampled rows of a simulated stream, and the mean of all its traffic."""
    rows: list[Evaluation] = []
    if design == "sessions":
        for session in range(15):
            level = 0.5 + 0.3 * chance.choice([-1, 1])
            sample = Sample(question="q", session_id=f"s{session}")
            values = [min(1.0, max(0.0, level + chance.gauss(0, 0.25))) for _ in range(20)]
            rows += [Evaluation(sample=sample, outcomes={"m": UNIT.score(v)}) for v in values]
        return rows, 0.5
    if design == "rare":
        classes = {(0.85, 0.01): 0.5, (0.95, 0.5): 0.5}
    else:
        rates = {"uniform": (0.2, 0.2), "tail": (1.0, 0.1)}[design]
        classes = {(0.05, rates[0]): 0.15, (0.8, rates[1]): 0.85}
    for _ in range(1000 if design == "rare" else 400):
        level, probability = chance.choices(list(classes), list(classes.values()))[0]
        if chance.random() < probability:
            score = UNIT.score(float(chance.random() < level))
            rows.append(row({"m": replace(score, probability=probability)}))
    return rows, sum(level * share for (level, _), share in classes.items())


@pytest.mark.parametrize(
    ("design", "most_plain"),
    [("uniform", 1.0), ("tail", 0.05), ("sessions", 0.85), ("rare", 1.0)],
)
def test_intervals_hold_the_truth_as_often_as_they_say(design: str, most_plain: float) -> None:
    """Over simulated streams, 95 % of the intervals hold the true mean; a plain mean's do not."""
    chance, number = random.Random(f"{SEED} {design}"), 200
    hits = plain = 0
    for _ in range(number):
        rows, truth = drawn_stream(design, chance)
        hits += holds(summarise(rows)[None].metrics["m"].estimate, truth)
        plain += holds(mean_of([one.outcomes["m"].value or 0.0 for one in rows]), truth)
    assert 0.91 <= hits / number <= (1.0 if design == "rare" else 0.99)
    assert plain / number <= most_plain


def test_few_scores_for_much_traffic_are_flagged() -> None:
    flagged = [row({"m": replace(UNIT.score(1.0), probability=0.5)}) for _ in range(50)]
    assert not summarise(flagged)[None].metrics["m"].is_rare
    flagged.append(row({"m": replace(UNIT.score(0.0), probability=0.01)}))
    assert summarise(flagged)[None].metrics["m"].is_rare


def test_labels_of_a_random_part_correct_a_biased_judge() -> None:
    """Intervals hold the truth whatever the samples' weights, and are narrower than the labels'."""
    chance, weight = random.Random(f"{SEED} labels"), 4.0
    hits, ratio, truth = 0, 0.0, 0.3 * 0.9 + 0.7 * 0.3
    for _ in range(200):
        drawn: dict[bool, list[tuple[float, float, float]]] = {True: [], False: []}
        for _ in range(900):
            often = chance.random() < 0.3
            own = 1.25 * (1.0 if often else weight)
            if chance.random() < 1 / own:
                label = float(chance.random() < (0.9 if often else 0.3))
                judged = float(chance.random() < (0.9 if label else 0.4))
                drawn[chance.random() < 0.3].append((label, judged, own))
        labels, judged_by, weights = zip(*drawn[True], strict=True)
        found = predicted_mean(
            [judged for _, judged, _ in drawn[False]],
            list(zip(labels, judged_by, strict=True)),
            [own for *_, own in drawn[False]],
            label_weights=weights,
        )
        alone = mean_of(labels, weights)
        assert found is not None
        assert alone is not None
        hits += holds(found, truth)
        ratio += (found.high - found.low) / (alone.high - alone.low) / 200  # type: ignore[operator]
    assert 0.9 <= hits / 200 <= 0.99
    assert ratio < 0.97
    useless = predicted_mean([0.5] * 200, [(float(n % 3 == 0), 0.5) for n in range(30)])
    assert useless is not None
    assert useless.mean == pytest.approx(10 / 30)
    assert predicted_mean([0.5], [(1.0, 0.5)] * (LEAST_LABELS - 1)) is None


@pytest.mark.parametrize(
    ("freedom", "expected"),
    [(1, 12.706), (2, 4.303), (3, 3.182), (4, 2.776), (5, 2.571), (10, 2.228), (1e9, 1.960)],
)
def test_t_quantile_matches_the_printed_table(freedom: float, expected: float) -> None:
    assert t_quantile(freedom) == pytest.approx(expected, abs=6e-4)


def test_the_classes_stand_in_the_report(tmp_path: Path) -> None:
    """The report of a file has each method's counts and per cent, under the source's names."""
    made = [
        evaluation(
            Sample(question=f"q{n}", metadata={"method": method, "dataset_row": f"{n % 5}-ab"}),
            {CLASS: labelled(label)},
        )
        for method, counts in METHODS.items()
        for label, count in zip(LABELS, counts, strict=True)
        for n in range(count)
    ]
    report = make_report(read(write_results(tmp_path / "r.jsonl", made)))
    assert list(report.groups) == ["method"]
    lines = as_markdown(report).replace("\\", "").splitlines()
    for method, counts in METHODS.items():
        cells = [[c.strip() for c in line.split("|")] for line in lines if f"| {method} (" in line]
        shown = {each[3]: int(each[4]) for each in cells if len(each) == 7}
        assert tuple(shown.get(label, 0) for label in LABELS) == counts
    plain = as_json(report)["metrics"][CLASS]
    names = ("correct_answers_count", "wrong_answers_count", "dont_know_answers_count")
    assert [plain[name] for name in names] == [17, 6, 1]
    texts = [as_text(as_markdown(report)), as_markdown(report).replace("\\", ""), as_html(report)]
    for text in texts:
        assert all(name in text for name in names)
        assert "70.8 %" in text


def test_groups_have_the_means_and_grades_of_the_definition() -> None:
    """Mean, best and worst by method, and grades in per cent, as in the source's tables."""
    table = {"local_search": (89.11, 95.33, 71.33), "basic_search": (43.68, 75.51, 20.41)}
    rows = [
        row({"graphrag.ragas_score": PERCENT.score(value)}, method=method)
        for method, (mean, best, least) in table.items()
        for value in (best, least, *[(8 * mean - best - least) / 6] * 6)
    ]
    for method, group in summarise(rows, "method").items():
        summary = group.metrics["graphrag.ragas_score"]
        assert summary.estimate is not None
        assert (round(summary.estimate.mean, 2), summary.best, summary.worst) == table[method or ""]
    grades = [row({GRADE: PERCENT.score(50, label=each)}) for each in "A" * 12 + "B" + "C" * 3]
    shares = summarise(grades)[None].metrics[GRADE].shares
    assert {k: round(100 * share.mean, 1) for k, share in shares.items()} == {
        "A": 75.0,
        "B": 6.2,
        "C": 18.8,
    }


@given(st.lists(st.one_of(st.floats(0, 1), st.sampled_from(Cause)), min_size=1))
def test_absences_are_counted_and_in_no_mean(values: list[float | Cause]) -> None:
    """Mean, best and worst are those of the scores alone; every sample is counted once."""
    rows = [row({"m": NotScored(v) if isinstance(v, Cause) else UNIT.score(v)}) for v in values]
    summary = summarise(rows)[None].metrics["m"]
    scores = [v for v in values if not isinstance(v, Cause)]
    assert summary.scored + sum(summary.not_scored.values()) == len(values)
    assert summary.scored == len(scores)
    assert (summary.best, summary.worst) == ((max(scores), min(scores)) if scores else (None, None))
    if scores:
        assert summary.estimate is not None
        assert summary.estimate.mean == pytest.approx(sum(scores) / len(scores), abs=1e-6)


@pytest.mark.parametrize("scale", [UNIT, PERCENT, Scale(1, 5), Scale(0, 1, higher_is_better=False)])
def test_estimates_stand_in_the_scale_of_the_metric(scale: Scale) -> None:
    """Mean and interval are in the native scale, the interval in its order, best is best."""
    span = scale.high - scale.low
    values = [scale.low + span * share for share in (0.1, 0.5, 0.9, 0.4)]
    summary = summarise([row({"m": scale.score(value)}) for value in values])[None].metrics["m"]
    found = summary.estimate
    assert found is not None
    assert found.low is not None
    assert found.high is not None
    assert found.mean == pytest.approx(sum(values) / 4)
    assert scale.low <= found.low < found.mean < found.high <= scale.high
    ends = (max(values), min(values))
    assert (summary.best, summary.worst) == (ends if scale.higher_is_better else ends[::-1])


def test_scores_that_no_draw_chose_are_in_no_estimate_of_traffic() -> None:
    """An evaluation that a feedback asked for would bias the mean: it is counted beside."""
    drawn = [row({"m": replace(UNIT.score(1.0), probability=0.5)}) for _ in range(4)]
    asked = [row({"m": UNIT.score(0.0)}) for _ in range(3)]
    summary = summarise([*drawn, *asked])[None].metrics["m"]
    assert summary.estimate is not None
    assert (summary.estimate.mean, summary.estimate.n, summary.scored) == (1.0, 4, 7)


def test_any_key_groups() -> None:
    """By a key of the metadata, reason, day or a function; those without it are a group."""
    start = int(datetime(2026, 5, 1, 23, tzinfo=UTC).timestamp() * 1e9)
    rows = [
        Evaluation(sample=Sample(question="q", metadata=m), outcomes={}, start=start, reason=reason)
        for m, reason in (({"kind": 1}, "ratio"), ({"kind": "1"}, ""), ({}, "rule:beta"))
    ]
    assert {k: g.samples for k, g in summarise(rows, "kind").items()} == {"1": 2, None: 1}
    assert list(summarise(rows, "reason")) == ["ratio", None, "rule:beta"]
    assert list(summarise(rows, "day")) == ["2026-05-01"]
    assert list(summarise(rows, lambda each: len(each.sample.metadata))) == ["1", "0"]


@pytest.mark.parametrize(
    ("levels", "label", "rule", "blame"),
    [
        ({FAITHFUL: 1, RECALL: 0}, None, "faithful, but the context lacks the answer", "retriever"),
        ({FAITHFUL: 0, RECALL: 1}, None, "the context has the answer, yet", "generator"),
        ({RECALL: 1, PRECISION: 0}, None, "everything needed is retrieved", "retriever"),
        ({FAITHFUL: 1, RELEVANT: 0}, None, "faithful, but answers another", "generator"),
        ({FAITHFUL: 0}, "CORRECT", "correct, but not from the context", "generator"),
        ({RECALL: 0}, "DON'T KNOW", "does not know, and the context lacks", "retriever"),
        ({RECALL: 1}, "DON'T KNOW", "does not know, though", "generator"),
        ({EXACT: 0.9, KEYWORDS: 0.2}, None, "exact but incomplete", "generator"),
        ({EXACT: 0.1, KEYWORDS: 0.9}, None, "right but phrased differently", "none"),
        ({KEYWORDS: 0.9, "lexical.number_match": 0.2}, None, "right concepts", "generator"),
        ({"lexical.source_citation": 0.3}, None, "sources not named", "generator"),
        ({KEYWORDS: 0.9, FAITHFUL: 0.3}, None, "matches the reference", "generator"),
        ({EXACT: 0.9, FAITHFUL: 0.8}, None, "high throughout", "none"),
        ({FAITHFUL: 0.1}, None, "claims that the context does not", "generator"),
        ({PRECISION: 0.1}, None, "irrelevant chunks are retrieved", "retriever"),
        ({"ragas.noise_sensitivity": 0.1}, None, "wrong claims despite", "generator"),
        (
            {FAITHFUL: 0, PRECISION: 0, "ragas.noise_sensitivity": 0},
            None,
            "distracted by irrelevant",
            "both",
        ),
    ],
)
def test_each_pattern_has_its_blame(
    levels: dict[str, float], label: str | None, rule: str, blame: str
) -> None:
    """Samples of a pattern show its rule, all others do not, and they are named."""
    outcomes: dict[str, Outcome] = {name: UNIT.score(value) for name, value in levels.items()}
    if label is not None:
        outcomes[CLASS] = labelled(label)
    shown = row(outcomes)
    middle = row({name: UNIT.score(0.65) for name in outcomes})
    found = {each.rule.name: each for each in diagnose([shown, middle])}
    # A special rule leaves nothing to the general one.
    (hit,) = [each for name, each in found.items() if name.startswith(rule)]
    assert hit.rule.blame == blame
    assert list(hit.rows) == [shown]
    assert hit.share.mean == 0.5


def test_good_signs_need_decided_scores_of_a_calibrated_judge() -> None:
    good = [row({FAITHFUL: UNIT.score(1.0)}) for _ in range(8)]
    assert [each.rule.blame for each in diagnose(good)] == ["none"]
    assert diagnose([*good, row({FAITHFUL: NotScored(Cause.UNDEFINED)})]) == []
    assert diagnose([row({FAITHFUL: UNIT.score(1.0, screening=True)})]) == []


@given(wrong=st.integers(1, 9), refused=st.integers(0, 9))
def test_overconfidence_compares_wrong_answers_with_refusals(wrong: int, refused: int) -> None:
    rows = [row({CLASS: labelled("WRONG")}) for _ in range(wrong)]
    rows += [row({CLASS: labelled("DON'T KNOW")}) for _ in range(refused)]
    names = [each.rule.name for each in diagnose(rows)]
    assert ("wrong although it claims to know" in names) is (wrong > refused)
    assert ("does not know" in names) is (refused > 0)


def test_cuts_are_the_callers_and_need_their_scores() -> None:
    rows = [row({FAITHFUL: UNIT.score(0.7), RECALL: UNIT.score(0.55)})]
    assert diagnose(rows) == []
    cuts = {FAITHFUL: Cuts(high=0.7), RECALL: Cuts(low=0.6)}
    assert diagnose(rows, cuts=cuts)[0].rule.blame == "retriever"
    absent = row({FAITHFUL: UNIT.score(1.0), RECALL: NotScored(Cause.MISSING_INPUT)})
    assert [each.rule.name for each in diagnose([absent])] == ["high throughout"]


_LEVELS = st.floats(0, 1) | st.none()


@given(st.lists(st.tuples(_LEVELS, _LEVELS, st.none() | st.floats(0, 1)), max_size=20))
def test_worst_ranks_by_faithfulness_then_risk_and_undecided_before_perfect(
    drawn: list[tuple[float | None, float | None, float | None]],
) -> None:
    """A risk stands for an undecided score; a sample without score and risk is in no ranking."""
    rows = [
        row(
            {
                FAITHFUL: NotScored(Cause.UNDEFINED, risk=risk, undecided=risk is not None)
                if faithful is None
                else UNIT.score(faithful, risk=risk),
                RECALL: NotScored(Cause.TIMEOUT) if recall is None else UNIT.score(recall),
            }
        )
        for faithful, recall, risk in drawn
    ]
    ranked = worst(rows)
    assert len(ranked) == sum(any(part is not None for part in each) for each in drawn)

    def key(one: Evaluation) -> tuple[float, float]:
        faithful, safety = one.outcomes[FAITHFUL], 1.0 - (one.outcomes[FAITHFUL].risk or 0.0)
        level = faithful.normalized if isinstance(faithful, Score) else min(safety, 0.999)
        return level, safety

    assert list(map(key, ranked)) == sorted(map(key, ranked))
    by_recall = [one.outcomes[RECALL].value for one in worst(rows, RECALL)]
    assert by_recall == sorted(recall for _, recall, _ in drawn if recall is not None)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("24h", datetime(2026, 2, 28, 12, tzinfo=UTC)),
        ("90m", datetime(2026, 3, 1, 10, 30, tzinfo=UTC)),
        ("1.5d", datetime(2026, 2, 28, 0, tzinfo=UTC)),
        ("today", datetime(2026, 3, 1, tzinfo=UTC)),
        ("2026-02-01", datetime(2026, 2, 1, tzinfo=UTC)),
        ("2026-02-01T10:00:00+02:00", datetime(2026, 2, 1, 8, tzinfo=UTC)),
    ],
)
def test_times_in_words(text: str, expected: datetime) -> None:
    """A span before now, the day, or a date; in UTC unless it says otherwise."""
    assert time_of(text, datetime(2026, 3, 1, 12, tzinfo=UTC)) == expected


@pytest.mark.parametrize(
    ("conditions", "left"),
    [
        ({}, "abcd"),
        ({"since": 5}, "ab"),
        ({"until": 2}, "bc"),
        ({"since": 5, "until": 2}, "b"),
        ({"where": [("tag", "ä"), ("kind", "x")]}, "a"),
        ({"metrics": ["x"]}, "abd"),
        ({"metrics": ["y.a"]}, "bc"),
    ],
)
def test_selected_rows_meet_every_condition(conditions: dict[str, Any], left: str) -> None:
    """Time, keys, tags and metrics each leave out what does not meet them, and nothing else."""
    now = datetime(2026, 3, 1, 12, tzinfo=UTC)
    rows = [
        Evaluation(
            sample=Sample(question=name, tags=tuple(tags), metadata={"kind": kind}),
            outcomes={metric: UNIT.score(1.0) for metric in metrics},
            start=0 if ago is None else int((now - timedelta(hours=ago)).timestamp() * 1e9),
        )
        for name, tags, kind, metrics, ago in (
            ("a", "ä", "x", ["x.a", "x.b"], 1),
            ("b", "äb", "y", ["x.a", "y.a"], 4),
            ("c", "b", "x", ["y.a"], 9),
            ("d", "", "x", ["x.b"], None),
        )
    ]
    times = {
        k: now - timedelta(hours=conditions[k]) for k in conditions.keys() & {"since", "until"}
    }
    found = list(select(rows, **{**conditions, **times}))
    assert "".join(one.sample.question for one in found) == left
    chosen = conditions.get("metrics", ["x", "y"])
    assert all(name in chosen or name[0] in chosen for one in found for name in one.outcomes)
