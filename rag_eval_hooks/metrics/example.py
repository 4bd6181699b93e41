"""One small sample with the findings that a judge could make of it, to show metrics at work."""

from __future__ import annotations

from typing import Final

from rag_eval_hooks.findings import (
    ChunkRelevance,
    ClaimVerdict,
    Findings,
    GEval,
    Questions,
    Rating,
    Stance,
    Support,
    TokenScore,
    Verdict,
)
from rag_eval_hooks.sample import Context, Sample

SAMPLE: Final = Sample(
    question="How tall is the Eiffel Tower, and when was it opened?",
    contexts=tuple(
        map(
            Context.of,
            (
                "The Eiffel Tower is 330 metres tall, as high as a building of 81 storeys.",
                "Paris is divided into 20 districts, which spiral out from its centre.",
                "The Eiffel Tower was opened on 31 March 1889, for the World's Fair.",
            ),
        )
    ),
    answer="According to document 1, the Eiffel Tower is 330 metres tall. It was opened in 1890.",
    reference="The Eiffel Tower is 330 metres tall. It was opened on 31 March 1889.",
)

_RELEVANCE = (
    ChunkRelevance(True, 95, "states the height"),
    ChunkRelevance(False, 5, "is about Paris, not the tower"),
    ChunkRelevance(True, 95, "states the date of the opening"),
)

FINDINGS: Final = Findings(
    answer_claims=("The Eiffel Tower is 330 metres tall.", "The Eiffel Tower was opened in 1890."),
    reference_claims=(
        "The Eiffel Tower is 330 metres tall.",
        "The Eiffel Tower was opened on 31 March 1889.",
    ),
    entities=("Eiffel Tower", "330 metres", "31 March 1889"),
    questions=Questions(
        (
            "How tall is the Eiffel Tower?",
            "In which year was the Eiffel Tower opened?",
            "What are the height and the year of opening of the Eiffel Tower?",
        )
    ),
    answer_support=(
        Support((True, False, False), reason="chunk 1 says so", quote="330 metres tall"),
        Support(
            (False, False, False),
            reason="chunk 3 gives another year",
            verdict=ClaimVerdict.CONTRADICTED,
            quote="opened on 31 March 1889",
        ),
    ),
    reference_support=(
        Support((True, False, False), reason="chunk 1 says so"),
        Support((False, False, True), reason="chunk 3 says so"),
    ),
    answer_agreement=(Verdict(True, "the same height"), Verdict(False, "another year")),
    reference_agreement=(Verdict(True, "the same height"), Verdict(False, "another year")),
    relevance=_RELEVANCE,
    entities_found=(Verdict(True), Verdict(True), Verdict(True)),
    question_similarity=(0.84, 0.79, 0.95),
    stance=Stance(answer=False, reference=False),
    relevance_to_answer=_RELEVANCE,
    direct_relevance=1.0,
    geval=GEval(55, 70, 100, "the height is right, the year is not"),
    classification=Verdict(False, "the year is wrong"),
    correctness=Rating(3, "one of two facts is right"),
    alignment=Rating(5, "it answers both parts of the question"),
    attitude=Rating(5, "both state facts"),
    accuracy_ratings=(2, 2),
    context_ratings=(2, 2),
    groundedness_ratings=(1, 1),
    answer_similarity=0.9137,
    token_score=TokenScore(0.83, 0.87, 0.85),
)
