"""The suite `retrieval`: metrics that compare ids of retrieved chunks with ids of relevant chunks.

Scores are in [0, 1]. The metrics need no judge or model. Samples need `reference_ids`, the ids of
the relevant chunks, and each retrieved chunk needs an id.

Sources: Manning, Raghavan and Schuetze, Introduction to Information Retrieval (2008), chapter 8.
For nDCG: Jarvelin and Kekalainen (2002), with a gain of 1 for a relevant chunk.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from itertools import compress

from rag_eval_hooks.errors import check_count
from rag_eval_hooks.findings import Findings
from rag_eval_hooks.metrics.metric import Metric
from rag_eval_hooks.sample import Field, Sample
from rag_eval_hooks.score import UNIT, Cause, NotScored, Outcome

_Measure = Callable[[Sequence[bool], int], float]  # of flags by rank, and relevant chunks


def _ndcg(hits: Sequence[bool], relevant: int) -> float:
    gains = [1.0 / math.log2(rank + 1) for rank in range(1, len(hits) + 1)]
    best = math.fsum(gains[:relevant])
    return math.fsum(compress(gains, hits)) / best if best else 0.0


_MEASURES: dict[str, tuple[_Measure, str]] = {
    "hit_rate": (
        lambda hits, _: float(any(hits)),
        "1 if at least one relevant chunk was retrieved, else 0.",
    ),
    "recall": (
        lambda hits, relevant: sum(hits) / relevant,
        "Share of the relevant chunks that were retrieved.",
    ),
    "mrr": (
        lambda hits, _: 1.0 / (hits.index(True) + 1) if any(hits) else 0.0,
        "1 divided by the rank of the first relevant chunk, or 0 without a relevant chunk.",
    ),
    "ndcg": (_ndcg, "Discounted gain of the relevant chunks, divided by the best possible gain."),
}


def retrieval_metrics(k: int | None = None) -> tuple[Metric, ...]:
    """Return the metrics hit rate, recall, mean reciprocal rank and nDCG for the first `k` chunks.

    ```python
    RagEval(metrics=["ragas", *retrieval_metrics(5)])
    ```

    The ids of these metrics contain `k`, such as `retrieval.recall_at_5`. If `k` is None, the
    metrics count all chunks.
    """
    if k is not None:
        check_count("k", k)
    end = "" if k is None else f"_at_{k}"
    return tuple(
        Metric(
            id=f"retrieval.{name}{end}",
            score=partial(_score, measure=measure, k=k),
            needs=frozenset({Field.CONTEXTS, Field.REFERENCE_IDS}),
            summary=summary,
            source="Introduction to Information Retrieval, chapter 8",
        )
        for name, (measure, summary) in _MEASURES.items()
    )


def _score(sample: Sample, _findings: Findings, *, measure: _Measure, k: int | None) -> Outcome:
    retrieved = [context.id for context in sample.contexts or ()]
    relevant = frozenset(sample.reference_ids or ())
    if not relevant:
        return NotScored(Cause.UNDEFINED, "the sample has no reference_ids")
    if None in retrieved:
        detail = "a chunk has no id; pass contexts=[{'id': ..., 'text': ...}]"
        return NotScored(Cause.MISSING_INPUT, detail)
    # A chunk from several searches counts at its first position.
    ranked = list(dict.fromkeys(retrieved))[:k]
    if "contexts" in sample.truncated and len(ranked) < (k or math.inf):
        return NotScored(Cause.UNDEFINED, "a limit removed chunks from the sample")
    hits = [one in relevant for one in ranked]
    return UNIT.score(
        measure([*hits, *[False] * ((k or 0) - len(hits))], len(relevant)),
        explanation={
            "expected": sorted(relevant),
            "found": [one for one in ranked if one in relevant],
            "missing": sorted(relevant.difference(ranked)),
        },
    )


METRICS = retrieval_metrics()
