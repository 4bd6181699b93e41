"""Diagnosis of a pipeline from its scores: what is to blame, and which samples show it.

Each rule is a pattern of high and low scores. Sources: Evaluation Metrics Documentation ("how to
interpret"), RAGAS Metrics Guide (which metric tests the retriever and which the model), GraphRAG
Evaluation Metrics (classes of answers).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Final

from rag_eval_hooks.results.estimate import Estimate, share_of
from rag_eval_hooks.results.read import ResultRow

__all__ = ["CUTS", "RULES", "Cuts", "Diagnosis", "ScoreRule", "diagnose"]

_ROLES: Final[Mapping[str, tuple[str, ...]]] = {
    "faithful": (
        "ragas.faithfulness",
        "graphrag.ragas_faithfulness",
        "whitepaper.faithfulness",
        "nvidia.response_groundedness",
    ),
    "recall": ("ragas.context_recall", "graphrag.ragas_context_recall", "whitepaper.recall"),
    "precision": (
        "ragas.context_precision",
        "graphrag.ragas_context_precision",
        "whitepaper.precision",
        "nvidia.context_relevance",
    ),
    "relevant": (
        "ragas.answer_relevancy",
        "graphrag.ragas_answer_relevance",
        "whitepaper.relevance",
    ),
    "correct": (
        "graphrag.answer_class",
        "graphrag.factual_accuracy_percentage",
        "whitepaper.correctness",
        "nvidia.answer_accuracy",
        "lexical.exact_match",
    ),
    "exact": ("lexical.exact_match",),
    "keywords": ("lexical.keyword_coverage",),
    "numbers": ("lexical.number_match",),
    "sources": ("lexical.source_citation",),
    "steady": ("ragas.noise_sensitivity",),
    "entities": ("ragas.context_entity_recall",),
}
"""Metrics that show a property, the one that is read first."""


@dataclass(frozen=True, slots=True)
class Cuts:
    """Normalised values from which a metric counts as high, and below which as low."""

    high: float = 0.8
    low: float = 0.5


CUTS: Final = Cuts()


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreRule:
    """A pattern of scores and its meaning.

    Attributes:
        name: The pattern, in a few words.
        blame: `retriever`, `generator`, `both`, or `none` for a good sign.
        meaning: What it says about the pipeline.
        advice: What to look at first.
        high: Properties that are high.
        low: Properties that are low.
        label: Label of the answer's class that it wants, such as `DON'T KNOW`.
        is_minor: Whether it is about form, and stands behind rules about substance.
    """

    name: str
    blame: str
    meaning: str
    advice: str
    high: tuple[str, ...] = ()
    low: tuple[str, ...] = ()
    label: str | None = None
    is_minor: bool = False


_DONT_KNOW: Final = "DON'T KNOW"
RULES: Final = (
    ScoreRule(
        name="faithful, but the context lacks the answer",
        blame="retriever",
        meaning="The model keeps to what it was given, and it was not given enough.",
        advice="More or other chunks: k, chunk size, hybrid search, the index itself.",
        high=("faithful",),
        low=("recall",),
    ),
    ScoreRule(
        name="the context has the answer, yet claims are made up",
        blame="generator",
        meaning="Retrieval did its part; the model states what the context does not.",
        advice="The prompt's instruction to keep to the context, the model, its temperature.",
        high=("recall",),
        low=("faithful",),
    ),
    ScoreRule(
        name="everything needed is retrieved, among much else",
        blame="retriever",
        meaning="Useful chunks stand behind useless ones: they cost tokens and distract.",
        advice="A smaller k, a reranker, a score threshold.",
        high=("recall",),
        low=("precision",),
    ),
    ScoreRule(
        name="faithful, but answers another question",
        blame="generator",
        meaning="The answer is grounded and does not address what was asked.",
        advice="The prompt, and how the question is rewritten before retrieval.",
        high=("faithful",),
        low=("relevant",),
    ),
    ScoreRule(
        name="correct, but not from the context",
        blame="generator",
        meaning="The model answers from what it knows itself: right today, unchecked tomorrow.",
        advice="Ask for quotes from the context; test with facts that the model cannot know.",
        high=("correct",),
        low=("faithful",),
    ),
    ScoreRule(
        name="does not know, and the context lacks the answer",
        blame="retriever",
        meaning="The refusal is honest: what was retrieved does not hold the answer.",
        advice="The index and retrieval; too many of these mean that retrieval fails.",
        low=("recall",),
        label=_DONT_KNOW,
    ),
    ScoreRule(
        name="does not know, though the context has the answer",
        blame="generator",
        meaning="The answer stood in the context and was not used.",
        advice="The prompt's wording on when to refuse, the order and number of chunks.",
        high=("recall",),
        label=_DONT_KNOW,
    ),
    ScoreRule(
        name="wrong although it claims to know",
        blame="generator",
        meaning="Many wrong answers beside few refusals: the pipeline is overconfident.",
        advice="Let it say that it does not know; lower the temperature.",
        low=("correct",),
        label="WRONG",
    ),
    ScoreRule(
        name="the context lacks the answer",
        blame="retriever",
        meaning="No answer can be complete, however good the model is.",
        advice="The index and retrieval before anything else.",
        low=("recall",),
    ),
    ScoreRule(
        name="distracted by irrelevant chunks",
        blame="both",
        meaning="Claims are wrong and chunks are irrelevant: the model follows distractors.",
        advice="A reranker first, then the prompt.",
        low=("faithful", "precision", "steady"),
    ),
    ScoreRule(
        name="names, dates and numbers were not retrieved",
        blame="retriever",
        meaning="Entities of the right answer stand in no chunk.",
        advice="Keyword search beside vectors; chunks that keep tables and headings.",
        low=("entities",),
    ),
    ScoreRule(
        name="exact but incomplete",
        blame="generator",
        meaning="The answer is right, yet details or context may be missing.",
        advice="The prompt's wish for length and detail.",
        high=("exact",),
        low=("keywords",),
    ),
    ScoreRule(
        name="right but phrased otherwise",
        blame="none",
        meaning="The information is there, in other words or among more than was asked for.",
        advice="Judge by meaning, not by the letter: exact match is too strict here.",
        high=("keywords",),
        low=("exact",),
    ),
    ScoreRule(
        name="right concepts, wrong numbers",
        blame="generator",
        meaning="The right things are named with wrong values: critical where results count.",
        advice="Let numbers be quoted, or computed by a tool.",
        high=("keywords",),
        low=("numbers",),
    ),
    ScoreRule(
        name="sources not named",
        blame="generator",
        meaning="Answers cannot be traced, which makes them hard to verify and to debug.",
        advice="Ask for the document and page of each statement.",
        low=("sources",),
        is_minor=True,
    ),
    ScoreRule(
        name="matches the reference, not the context",
        blame="generator",
        meaning="Answers meet expectations without being grounded: fitted to the expected form.",
        advice="Questions whose answer only the context holds.",
        high=("keywords",),
        low=("faithful",),
    ),
    ScoreRule(
        name="high throughout",
        blame="none",
        meaning="Well in every respect that was measured.",
        advice="Nothing; look at the samples that were not scored.",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """A rule and the samples that show it.

    Attributes:
        rule: The rule.
        share: Share of all traffic that shows it, of samples on which it can be decided.
        rows: These samples, the worst first.
    """

    rule: ScoreRule
    share: Estimate
    rows: Sequence[ResultRow] = field(repr=False)


def diagnose(
    rows: Iterable[ResultRow],
    *,
    cuts: Mapping[str, Cuts] | None = None,
    rules: Iterable[ScoreRule] = RULES,
) -> list[Diagnosis]:
    """Return the rules that samples show: faults first, the most frequent first.

    Args:
        rows: The results.
        cuts: What is high and low, by metric id; `CUTS` for all others.
        rules: The rules.
    """
    found = []
    known = list(rows)
    for rule in rules:
        shown = [(row, _shows(rule, row, cuts or {})) for row in known]
        decided = [(row, flag) for row, flag in shown if flag is not None]
        share = share_of(
            [flag for _, flag in decided], [1.0 / (row.probability or 1.0) for row, _ in decided]
        )
        if share is not None and share.raw:
            worst = sorted((row for row, flag in decided if flag), key=_goodness)
            found.append(Diagnosis(rule=rule, share=share, rows=worst))
    return sorted(
        found, key=lambda one: (one.rule.blame == "none", one.rule.is_minor, -one.share.mean)
    )


def _shows(rule: ScoreRule, row: ResultRow, cuts: Mapping[str, Cuts]) -> bool | None:
    """Return whether a sample shows a rule; None where a score is missing."""
    if not (rule.high or rule.low):
        levels = [(name, score.normalised) for name in row.outcomes if (score := row.score(name))]
        return all(v >= cuts.get(n, CUTS).high for n, v in levels) if levels else None
    sides = [(name, True) for name in rule.high] + [(name, False) for name in rule.low]
    known = [_side(row, name, cuts, wants_high) for name, wants_high in sides]
    if rule.label is not None:
        score = row.score("graphrag.answer_class")
        known.append(None if score is None else score.label == rule.label)
    return None if None in known else all(known)


def _side(row: ResultRow, role: str, cuts: Mapping[str, Cuts], wants_high: bool) -> bool | None:
    for metric in _ROLES.get(role, (role,)):
        score = row.score(metric)
        if score is not None:
            cut = cuts.get(metric, CUTS)
            return score.normalised >= cut.high if wants_high else score.normalised < cut.low
    return None


def _goodness(row: ResultRow) -> float:
    values = [score.normalised for name in row.outcomes if (score := row.score(name))]
    return fmean(values) if values else 1.0
