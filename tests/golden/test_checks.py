"""Question checks of a file give the fields of the seed."""

from __future__ import annotations

from pathlib import Path

from rag_eval_hooks import Sample, Score
from rag_eval_hooks.metrics import Metric, build, choose
from rag_eval_hooks.metrics.question_checks import parse_checks
from tests.golden.measure import measure

FILE = Path(__file__).with_name("question_checks.toml")

RULES = """The rating plan has these rules:

* **Rule C-1**: Policy term
* **Rule C-2**: Base rates
- Multi-Policy Discount
1. Territory definitions - by ZIP code
"""
FACTS = (
    "Yes. Territory 118 has a rate change of 0.305% and GRG 51; Territory 117 has -0.133% and "
    "GRG 15. The difference is 36."
)
TRUE_FACTS = {
    *("has_yes", "has_territory_118", "has_territory_117", "has_rate_0_305"),
    *("has_rate_neg_0_133", "has_grg_51", "has_grg_15", "has_difference_36"),
}


def checks() -> dict[str, Metric]:
    given = build(question_checks=parse_checks(FILE.read_text("utf-8"), FILE.name))
    return {metric.id: metric for metric in choose(["all"], given)}


def check(metric: str, answer: str, reference: str | None = None) -> Score:
    question_id = metric.split(".")[1]
    sample = Sample(question="q", question_id=question_id, answer=answer, reference=reference)
    outcome = measure(checks()[metric], sample)
    assert isinstance(outcome, Score), outcome
    return outcome


def true_fields(score: Score) -> set[str]:
    return {name for name, value in score.explanation.items() if value is True}


def test_rules_are_compared_as_sets() -> None:
    for answer, found in [
        (RULES, 4),
        # List items by name, rules by their number, in any case, emphasis and order.
        ("* territory definitions\n- RULE C-2\n+ *Multi-Policy Discount*\nand also Rule C-1.", 4),
        # A rule named twice counts once, one that is not expected does not count.
        ("Rule C-1, again Rule C-1, Rule C-7\n* Something else", 1),
        ("Rule C-12 and Rule C-20", 0),
    ]:
        parts = check("lexical.EF_1.rules_coverage", answer, RULES).parts
        assert parts == {"rules_found": found, "total_rules": 4, "rules_coverage": found / 4}


def test_fact_is_a_whole_word_or_a_value() -> None:
    for changed, to, lost in [
        ("Yes.", "Yes.", None),
        ("Yes.", "Yesterday.", "has_yes"),
        ("0.305%", "0.305", "has_rate_0_305"),
        ("-0.133%", "0.133%", "has_rate_neg_0_133"),
        ("GRG 15", "GRG 150", "has_grg_15"),
        ("is 36.", "is 365.", "has_difference_36"),
        ("is 36.", "exceeds 300.", "has_difference_36"),
        ("is 36.", "is 36.0 groups.", None),
    ]:
        score = check("lexical.EF_2.fact_score", FACTS.replace(changed, to))
        assert true_fields(score) == TRUE_FACTS - {lost}
        assert score.value == score.parts["fact_score"] == (7 / 8 if lost else 1.0)


def test_a_calculation_is_right_when_it_has_the_result() -> None:
    for answer, fields in [
        (
            "$293 x 2.061 = $604",
            {"has_604", "has_293", "has_2_061", "has_calculation", "is_correct"},
        ),
        ("The premium is **$604**.", {"has_604", "is_correct"}),
        ("* The premium is $1,604", set()),
        ("The base rate \N{MULTIPLICATION SIGN} factor, in example 1604", {"has_calculation"}),
        ("I cannot calculate it; perhaps $604.", {"has_604", "cannot_calculate"}),
    ]:
        score, is_correct = check("lexical.EF_3.is_correct", answer), "is_correct" in fields
        assert true_fields(score) == fields
        assert (score.value, score.label) == (float(is_correct), str(is_correct))
        assert set(score.parts) > fields
