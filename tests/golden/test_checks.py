"""Question checks of a file give the fields of the seed."""

from __future__ import annotations

from pathlib import Path

import pytest

from rag_eval_hooks import NotScored, Sample, Score
from rag_eval_hooks.errors import ConfigError
from rag_eval_hooks.metrics import Metric, MetricOptions, build, choose
from rag_eval_hooks.metrics.question_checks import parse_checks
from rag_eval_hooks.score import Cause
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
    "has_yes",
    "has_territory_118",
    "has_territory_117",
    "has_rate_0_305",
    "has_rate_neg_0_133",
    "has_grg_51",
    "has_grg_15",
    "has_difference_36",
}


def checks() -> dict[str, Metric]:
    options = MetricOptions(question_checks=parse_checks(FILE.read_text("utf-8"), FILE.name))
    return {metric.id: metric for metric in choose(["all"], build(options))}


def check(metric: str, answer: str, reference: str | None = None) -> Score:
    question_id = metric.split(".")[1]
    sample = Sample(question="q", question_id=question_id, answer=answer, reference=reference)
    outcome = measure(checks()[metric], sample)
    assert isinstance(outcome, Score), outcome
    return outcome


def true_fields(score: Score) -> set[str]:
    return {name for name, value in score.explanation.items() if value is True}


# EF_1


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


def test_reference_without_a_list_has_no_coverage() -> None:
    sample = Sample(question="q", question_id="EF_1", answer=RULES, reference="None.")
    outcome = measure(checks()["lexical.EF_1.rules_coverage"], sample)
    assert isinstance(outcome, NotScored)
    assert outcome.cause is Cause.UNDEFINED


# EF_2


def test_fact_is_a_whole_word_or_a_value() -> None:
    for changed, to, lost in [
        ("Yes.", "Yes.", None),
        ("Yes.", "Yesterday.", "has_yes"),
        ("Territory 118", "Territory 1180", "has_territory_118"),
        ("0.305%", "10.305%", "has_rate_0_305"),
        ("0.305%", "0.305", "has_rate_0_305"),
        ("-0.133%", "0.133%", "has_rate_neg_0_133"),
        ("GRG 15", "GRG 150", "has_grg_15"),
        ("is 36.", "is 365.", "has_difference_36"),
        ("is 36.", "exceeds 300.", "has_difference_36"),
        ("is 36.", "exceeds 30.", None),
        ("is 36.", "is 36.0 groups.", None),
    ]:
        score = check("lexical.EF_2.fact_score", FACTS.replace(changed, to))
        assert true_fields(score) == TRUE_FACTS - {lost}
        assert score.value == score.parts["fact_score"] == (7 / 8 if lost else 1.0)


# EF_3


def test_a_calculation_is_right_when_it_has_the_result() -> None:
    for answer, fields in [
        (
            "$293 x 2.061 = $604",
            {"has_604", "has_293", "has_2_061", "has_calculation", "is_correct"},
        ),
        ("Multiply them: $604.00", {"has_604", "has_calculation", "is_correct"}),
        ("The premium is **$604**.", {"has_604", "is_correct"}),
        ("* The premium is $1,604", set()),
        ("The base rate \N{MULTIPLICATION SIGN} factor, in example 1604", {"has_calculation"}),
        ("I cannot calculate it; perhaps $604.", {"has_604", "cannot_calculate"}),
        ("I can\N{RIGHT SINGLE QUOTATION MARK}t calculate the premium.", {"cannot_calculate"}),
    ]:
        score = check("lexical.EF_3.is_correct", answer)
        assert true_fields(score) == fields
        assert (score.value, score.label) == (
            float("is_correct" in fields),
            str("is_correct" in fields),
        )
        assert set(score.parts) == {
            "has_604",
            "has_293",
            "has_2_061",
            "has_calculation",
            "cannot_calculate",
            "is_correct",
        }


# All


def test_a_check_is_for_one_question() -> None:
    for question_id in [None, "EF_4", "ef_1"]:
        sample = Sample(question="q", question_id=question_id, answer="604", reference=RULES)
        for name in ("EF_1.rules_coverage", "EF_2.fact_score", "EF_3.is_correct"):
            outcome = measure(checks()[f"lexical.{name}"], sample)
            assert isinstance(outcome, NotScored)
            assert outcome.cause is Cause.MISSING_INPUT


CALCULATION = "[Q]\nkind = 'calculation'\n"
FACT = '[Q.facts]\na = { words = ["a"] }\n'


def test_a_faulty_file_is_told_apart() -> None:
    for text, field, wants in [
        ("[Q", "f.toml", "TOML"),
        ("Q = 1", "f.toml: Q", "a table"),
        ("['a b']\nkind = 'list'", "f.toml: a b.question_id", "pattern"),
        ("[Q]", "f.toml: Q", "discriminator"),
        ("[Q]\nkind = ['list']", "f.toml: Q", "expected tags"),
        ("[Q]\nkind = 'list'\npatterns = ['(']", "f.toml: Q.patterns.0", "regular expression"),
        ("[Q]\nkind = 'list'\npatern = []", "f.toml: Q.patern", "permitted"),
        ("[Q]\nkind = 'facts'", "f.toml: Q.facts", "required"),
        ("[Q]\nkind = 'facts'\nfacts = 1", "f.toml: Q.facts", "dictionary"),
        ("[Q]\nkind = 'facts'\nfacts = {}", "f.toml: Q.facts", "at least 1"),
        ("[Q]\nkind = 'facts'\nfacts = {a = {}}", "f.toml: Q.facts.a", "at least one of"),
        ("[Q]\nkind = 'facts'\nfacts = {a = {words = 'x'}}", "f.toml: Q.facts.a.words", "list"),
        ("[Q]\nkind = 'facts'\nfacts = {a={words=[true]}}", "f.toml: Q.facts.a.words.0", "string"),
        ("[Q]\nkind = 'facts'\nfacts = {a={words=[' ']}}", "f.toml: Q.facts.a.words.0", "letter"),
        ("[Q]\nkind = 'facts'\nfacts = {a={words=['!']}}", "f.toml: Q.facts.a.words.0", "letter"),
        ("[Q]\nkind = 'facts'\nfacts = {a={numbers=['x']}}", "f.toml: Q.facts.a.numbers.0", "one"),
        (CALCULATION + FACT, "f.toml: Q.correct", "required"),
        (CALCULATION + "correct = {holds=[]}\n" + FACT, "f.toml: Q.correct.holds", "at least 1"),
        (CALCULATION + "correct = {holds = ['b']}\n" + FACT, "f.toml: Q", "one of a"),
    ]:
        with pytest.raises(ConfigError) as caught:
            parse_checks(text, "f.toml")
        assert caught.value.field == field
        assert wants in caught.value.wants


def test_a_question_has_one_check() -> None:
    twice = parse_checks("[Q]\nkind = 'list'") * 2
    with pytest.raises(ConfigError, match="one check for each question"):
        MetricOptions(question_checks=twice)


def test_weights_make_a_mean() -> None:
    """Unknown parts, negative or infinite weights, and no weight at all are refused."""
    for weights, wants in [
        ({"faith": 1.0}, "one of"),
        ({"recall": -1.0}, "0 or more"),
        ({"recall": float("inf")}, "finite"),
        ({"recall": 0.0}, "above 0"),
        ({}, "above 0"),
    ]:
        with pytest.raises(ConfigError, match=wants):
            MetricOptions(whitepaper_weights=weights)
