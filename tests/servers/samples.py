"""Tasks whose right findings can be told by looking at them."""

from __future__ import annotations

from rag_eval_hooks.findings import ChunkRelevance, Decompose, Finding, Support, Verdict, Verify

__all__ = ["DECOMPOSE", "VERIFY", "VERIFY_PARTS", "verdicts"]

DECOMPOSE = Decompose(
    wanted=frozenset(
        {Finding.ANSWER_CLAIMS, Finding.REFERENCE_CLAIMS, Finding.ENTITIES, Finding.QUESTIONS}
    ),
    question="When did the lighthouse of Varne open?",
    answer="The lighthouse of Varne opened in 1841. Its lamp burns oil.",
    reference="The lighthouse of Varne opened in 1841. Its keeper was Ada Lorne.",
)
VERIFY_PARTS = (
    Finding.ANSWER_SUPPORT,
    Finding.REFERENCE_SUPPORT,
    Finding.ANSWER_AGREEMENT,
    Finding.REFERENCE_AGREEMENT,
    Finding.RELEVANCE,
    Finding.ENTITIES_FOUND,
)
VERIFY = Verify(
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


def verdicts(finding: tuple[Support | Verdict | ChunkRelevance, ...]) -> list[object]:
    """The bare verdicts of a finding, without reasons."""
    return [_bare(item) for item in finding]


def _bare(item: Support | Verdict | ChunkRelevance) -> object:
    if isinstance(item, Support):
        return item.by_chunk
    return item.holds if isinstance(item, Verdict) else item.useful
