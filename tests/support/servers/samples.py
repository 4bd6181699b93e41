"""Tasks whose right findings can be told by looking at them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rag_eval_hooks.calls import Usage
from rag_eval_hooks.findings import ChunkRelevance, Finding, Findings, Support, Verdict
from rag_eval_hooks.score import NotScored
from tests.support.judge_task import JudgeTask

F = Finding
DECOMPOSE = JudgeTask(
    wanted=frozenset({F.ANSWER_CLAIMS, F.REFERENCE_CLAIMS, F.ENTITIES, F.QUESTIONS, F.STANCE}),
    question="When did the lighthouse of Varne open?",
    answer="The lighthouse of Varne opened in 1841. Its lamp burns oil.",
    reference="The lighthouse of Varne opened in 1841. Its keeper was Ada Lorne.",
)
VERIFY_PARTS = (
    *(F.ANSWER_SUPPORT, F.REFERENCE_SUPPORT),
    *(F.RELEVANCE, F.RELEVANCE_TO_ANSWER, F.ENTITIES_FOUND),
)
"""Verdicts by the chunks: one call."""
AGREEMENTS = (Finding.ANSWER_AGREEMENT, Finding.REFERENCE_AGREEMENT)
"""Verdicts of text against text: a call of their own."""
VERIFY = JudgeTask(
    wanted=frozenset(VERIFY_PARTS),
    question=DECOMPOSE.question,
    chunks=(
        "Records say that the lighthouse of Varne opened in 1841.",
        "Tulips are grown on the island.",
        "Its keeper was Ada Lorne, and the tower is white.",
    ),
    answer=DECOMPOSE.answer,
    reference=DECOMPOSE.reference,
    answer_claims=("The lighthouse of Varne opened in 1841", "The lamp burns oil"),
    reference_claims=("The lighthouse of Varne opened in 1841", "Its keeper was Ada Lorne"),
    entities=("Varne", "1841", "Ada Lorne", "Norway"),
)
ONE = replace(VERIFY, wanted=frozenset({Finding.ANSWER_SUPPORT}))
"""One finding, and so one call."""
WHOLE_VERIFY = replace(VERIFY, wanted=frozenset((*VERIFY_PARTS, *AGREEMENTS)))
LONG_VERIFY = JudgeTask(
    wanted=WHOLE_VERIFY.wanted,
    question="What is known of the lighthouse of Varne?",
    chunks=(
        "The tower is white, they say. " + "Nothing else is told of it here. " * 3,
        "The lamp burns oil, and the stairs are steep. " + "The sea is near. " * 5,
        "Tulips are grown on the island. " + "They sell well in spring. " * 4,
        "The stairs are steep, wrote Ada Lorne. " + "She did not like them much. " * 3,
    ),
    answer="The tower is white and the stairs are steep. The lamp burns gas.",
    reference="The lamp burns oil and the stairs are steep.",
    answer_claims=("The tower is white and the stairs are steep", "The lamp burns gas"),
    reference_claims=("The lamp burns oil and the stairs are steep", "The stairs are steep"),
    entities=("Ada  Lorne", "the sea", "Norway"),
)
"""Its first answer claim needs two chunks together: the first and the second or the fourth."""
RATINGS = {F.DIRECT_RELEVANCE, F.GEVAL, F.CLASSIFICATION, F.CORRECTNESS, F.ALIGNMENT, F.ATTITUDE}
RATE = replace(DECOMPOSE, wanted=frozenset(RATINGS))
GRADE = replace(
    DECOMPOSE,
    wanted=frozenset({F.ACCURACY_RATINGS, F.CONTEXT_RATINGS, F.GROUNDEDNESS_RATINGS}),
    chunks=VERIFY.chunks,
    reference="The lighthouse of Varne opened in 1841.",
)
"""The reference states half of the answer, so that its two accuracy ratings differ."""
PARTS = tuple(sorted(DECOMPOSE.wanted | WHOLE_VERIFY.wanted | RATE.wanted | GRADE.wanted))
"""Every finding that a language model makes."""


def verdicts(finding: Sequence[Support | Verdict | ChunkRelevance]) -> list[object]:
    return [_bare(item) if item.sure else None for item in finding]


def _bare(item: Support | Verdict | ChunkRelevance) -> object:
    if isinstance(item, Support):
        return item.by_chunk
    return item.holds if isinstance(item, Verdict) else item.useful


TRUTH = {Finding.ANSWER_SUPPORT: [(True, False, False), (False, False, False)]}


def found(findings: Findings) -> dict[Finding, object]:
    values = {kind: getattr(findings, kind.value) for kind in TRUTH}
    return {k: v.cause if isinstance(v, NotScored) else verdicts(v) for k, v in values.items()}


def spent(findings: Findings) -> Usage:
    return sum(findings.usage.values(), Usage())
