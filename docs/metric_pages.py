"""Write the generated part of docs/metrics.md: each metric with formula and worked calculation.

python docs/metric_pages.py
"""

# ruff: noqa: E501 - rows of tables

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from rag_eval_hooks.cli.metrics import example_texts, listed, worked
from rag_eval_hooks.metrics import ALL_METRICS, Metric

PAGE = Path(__file__).with_name("metrics.md")
CLAIMS = "supported claims of the {} / claims of the {} with a sure verdict"
FORMULAS = {
    "ragas.answer_relevancy": "mean of cosine(question, generated question) over three generated questions; 0 if the mean is negative or the answer is noncommittal, here (0.84 + 0.79 + 0.95) / 3",
    "ragas.faithfulness": CLAIMS.format("answer", "answer") + ", here 1 / 2",
    "ragas.context_precision": "mean of (useful chunks among the first k chunks) / k, taken at the rank k of each useful chunk, here (1/1 + 2/3) / 2",
    "ragas.context_precision_without_reference": "as for `ragas.context_precision`, but a chunk is useful if it helps to give the answer, here (1/1 + 2/3) / 2",
    "ragas.context_recall": CLAIMS.format("reference", "reference") + ", here 2 / 2",
    "ragas.context_entity_recall": "entities of the reference that a chunk contains / entities of the reference, here 3 / 3",
    "ragas.noise_sensitivity": "claims of the answer that the reference does not support / claims of the answer with a sure verdict, here 1 / 2",
    "graphrag.ragas_faithfulness": "100 x " + CLAIMS.format("answer", "answer") + ", here 100 x 1 / 2",
    "graphrag.ragas_context_precision": "100 x useful chunks / chunks, here 100 x 2 / 3",
    "graphrag.ragas_context_recall": "100 x " + CLAIMS.format("reference", "reference") + ", here 100 x 2 / 2",
    "graphrag.ragas_answer_relevance": "100 x mean of cosine(question, generated question) over three generated questions; 0 if the mean is negative, here 100 x (0.84 + 0.79 + 0.95) / 3",
    "graphrag.ragas_score": "sum of weight x part / sum of weights. Both sums include only the parts that have a value",
    "graphrag.factual_accuracy_percentage": "0.5 x correctness + 0.3 x completeness + 0.2 x consistency, here 0.5 x 55 + 0.3 x 70 + 0.2 x 100",
    "graphrag.semantic_similarity_percentage": "100 x cosine(answer, reference); 0 if the cosine is negative, here 100 x 0.9137",
    "graphrag.bert_score_f1": "100 x 2 x precision x recall / (precision + recall); 0 if negative. For precision, each answer token gets its highest cosine with a reference token. Precision is the mean of these cosines. For recall, each reference token gets its highest cosine with an answer token",
    "graphrag.answer_class": "100 if the class is CORRECT, else 0",
    "whitepaper.correctness": "the judge's rating, 1 to 5",
    "whitepaper.faithfulness": "1 + 4 x " + CLAIMS.format("answer", "answer") + "; 5 without contexts, here 1 + 4 x 1 / 2",
    "whitepaper.precision": "1 + 4 x chunks that support at least one claim of the answer / chunks, here 1 + 4 x 1 / 3",
    "whitepaper.recall": "1 + 4 x " + CLAIMS.format("answer", "answer") + "; 5 without contexts, here 1 + 4 x 1 / 2",
    "whitepaper.relevance": "the judge's rating, 1 to 5",
    "whitepaper.weighted_score": "sum of weight x part / sum of weights. Both sums include only the parts that have a value",
    "nvidia.answer_accuracy": "mean of the valid ratings / 4, here (2 + 2) / 2 / 4",
    "nvidia.context_relevance": "mean of the valid ratings / 2, here (2 + 2) / 2 / 2",
    "nvidia.response_groundedness": "mean of the valid ratings / 2, here (1 + 1) / 2 / 2",
    "lexical.exact_match": "1 if the texts are equal, else 0",
    "lexical.keyword_coverage": "keywords of the reference that the answer contains / keywords of the reference, here 7 / 11",
    "lexical.number_match": "numbers of the reference that the answer contains / numbers of the reference, here 1 / 3",
    "lexical.answer_completeness": "(min(1, words of the answer / words of the reference) + keyword coverage) / 2, here (1 + 0.6364) / 2",
    "lexical.source_citation": "min(1, number of kinds of source references in the answer / 3), here 2 / 3",
    "retrieval.hit_rate": "1 if at least one retrieved id is relevant, else 0",
    "retrieval.recall": "relevant ids that were retrieved / relevant ids, here 2 / 2",
    "retrieval.mrr": "1 / rank of the first relevant chunk; 0 without a relevant chunk, here 1 / 1",
    "retrieval.ndcg": "sum of 1 / log2(rank + 1) over the relevant chunks, divided by this sum for the best possible order, here (1 + 0.5) / (1 + 0.63)",
    "rag.citation_support": "claims that a cited passage supports / claims with a citation and a sure verdict, here 1 / 1",
}  # fmt: skip
NAN = "Without claims, there is no score (`undefined`), but ragas returns NaN."
BOTH_INVALID = (
    "If both ratings are invalid, there is no score (`judge_failed`), but ragas returns NaN."
)
RATED = "ragas adds 1e-10 to the divisor, but this metric does not."
DIFFERENCES = {
    "ragas.answer_relevancy": "A negative mean gives 0, but ragas returns the negative mean. Without generated questions, there is no score (`undefined`), but ragas returns NaN.",
    "ragas.faithfulness": NAN,
    "ragas.context_precision": f"{RATED} If the answer is a refusal and the reference is missing, this metric has no score (`undefined`).",
    "ragas.context_precision_without_reference": f"{RATED} If the answer is a refusal, this metric has no score (`undefined`).",
    "ragas.context_recall": NAN,
    "ragas.context_entity_recall": "The comparison of entities ignores case, accents and spacing, but ragas requires exact equality. Without entities, there is no score (`undefined`), but ragas returns 0.",
    "ragas.noise_sensitivity": "A wrong claim counts even if no context supports the claim. The score's `parts` divide wrong claims by source: `relevant` chunks, `irrelevant` chunks, or no chunk (`unsupported`). ragas computes only one part, `relevant` or `irrelevant`. The judge rates whether a chunk is relevant. In ragas, a chunk is relevant if a claim of the reference follows from the chunk.",
    "nvidia.answer_accuracy": BOTH_INVALID,
    "nvidia.context_relevance": BOTH_INVALID,
    "nvidia.response_groundedness": BOTH_INVALID,
}  # fmt: skip
MARK = "<!-- The rest is written by `python docs/metric_pages.py`. -->\n"


def page() -> str:
    """Return the page: its text up to the mark, then all metrics."""
    text, mark, _ = PAGE.read_text(encoding="utf-8").partition(MARK)
    return text + mark + "\n".join([*_table(), *_example(), *_worked(), ""])


def _table() -> Iterator[str]:
    yield from ("", "## All metrics", "")
    yield from (
        "| id | score | scale | required fields | judge calls if computed alone |",
        "|---|---|---|---|---|",
    )
    for metric in ALL_METRICS:
        name, scale, better, needs, calls, _ = listed(metric)
        side = "; **lower is better**" if better == "lower" else ""
        yield f"| `{name}` | {metric.summary.rstrip('.')}{side} | {scale} | {needs} | {calls} |"


def _example() -> Iterator[str]:
    yield from (
        "",
        "## Worked calculations",
        "",
        "Each calculation uses this sample and fixed findings. The chunks have the ids `t1`, `p4` and `t7`. The sample's `reference_ids` are `t1` and `t7`.",
        "",
        "| field | text |",
        "|---|---|",
    )
    yield from (f"| {name.strip()} | {text} |" for name, text in example_texts())


def _worked() -> Iterator[str]:
    for metric in ALL_METRICS:
        yield from _section(metric)


def _section(metric: Metric) -> Iterator[str]:
    yield from ("", f"### {metric.id}", "", f"{metric.summary} Source: {metric.source}.", "")
    formula, _, here = FORMULAS[metric.id].partition(", here ")
    yield f"Formula: {formula}."
    yield from (f"For the sample: {here}.", "") if here else ("",)
    if metric.id in DIFFERENCES:
        yield from (f"Differs from ragas 0.4.3: {DIFFERENCES[metric.id]}", "")
    yield from ("```text", *(line.removeprefix("  ") for line in worked(metric)), "```")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
