"""Judge calls and prompt characters per sample, by metrics and by way of asking.

The judge is in-process and truthful; what is counted is what `LLMJudge` sends: the system and
user texts of every call. Endpoints without JSON Schema also get the reply's shape in the text;
that is the second figure. Embedding calls are not judge calls.

    python -m benchmarks.judge_calls [--samples 50]
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmarks.corpus import samples
from rag_eval_hooks import NotScored, RagEval
from rag_eval_hooks.judges.chat import Completion
from rag_eval_hooks.judges.llm import LLMJudge
from rag_eval_hooks.prompts import Prompt
from rag_eval_hooks.score import Cause
from tests.servers.brain import embedding, truthful_reply

SETS: Mapping[str, Sequence[str]] = {
    "ten (ragas, nvidia)": (
        "ragas.answer_relevancy",
        "ragas.faithfulness",
        "ragas.context_precision",
        "ragas.context_precision_without_reference",
        "ragas.context_recall",
        "ragas.context_entity_recall",
        "ragas.noise_sensitivity",
        "nvidia",
    ),
    "reference-free (ragas)": (
        "ragas.faithfulness",
        "ragas.answer_relevancy",
        "ragas.context_precision",
    ),
    "all suites": ("all",),
}
WAYS: Mapping[str, Mapping[str, str]] = {
    "fused": {},
    "fused, paired": {"nvidia_calls": "paired"},
    "single": {"calls": "single"},
}
LIMITS = {
    ("ten (ragas, nvidia)", "fused"): (8, 30_000),
    ("ten (ragas, nvidia)", "fused, paired"): (4, 20_000),
    ("reference-free (ragas)", "fused"): (2, 9_000),
    ("all suites", "fused"): (12, None),
}
PUBLISHED = (35, 153_000)
"""Calls and characters of the best-known library for the ten metrics, on such samples."""


class CountingChat:
    """A truthful model that counts."""

    name = "counting"

    def __init__(self) -> None:
        self.calls = self.chars = self.chars_with_shape = 0

    async def complete(self, prompt: Prompt) -> Completion:
        """The right reply."""
        self.calls += 1
        self.chars += len(prompt.system) + len(prompt.user)
        self.chars_with_shape += len(prompt.system) + len(prompt.user_with_shape)
        body = {"messages": [{"role": "user", "content": prompt.user_with_shape}]}
        return Completion(json.dumps(truthful_reply(body)))

    async def aclose(self) -> None:
        """Holds nothing."""


class WordEmbedder:
    """Vectors of hashed words."""

    name = "words"

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """One vector per text."""
        return [embedding(text) for text in texts]

    async def aclose(self) -> None:
        """Holds nothing."""


@dataclass(frozen=True, slots=True)
class Cost:
    """Per sample.

    Attributes:
        calls: Judge calls.
        chars: Characters of their prompts.
        with_shape: The same for endpoints without JSON Schema.
        failed: Outcomes, of all samples, that are absent through a failure.
    """

    calls: float
    chars: float
    with_shape: float
    failed: int


def cost(metrics: Sequence[str], options: Mapping[str, str], count: int) -> Cost:
    """What judging samples by these metrics takes."""
    chat = CountingChat()
    judge = LLMJudge(chat, **options)  # type: ignore[arg-type]
    reference_free = not any(name in ("all", "nvidia") for name in metrics)
    failed = 0
    with RagEval(metrics=metrics, judge=judge, embedder=WordEmbedder()) as evals:
        for sample in samples(count):
            plain = sample.to_dict()
            if reference_free:
                del plain["reference"]
            outcomes = evals.evaluate(type(sample).from_dict(plain))
            failed += sum(
                isinstance(o, NotScored) and o.cause is not Cause.MISSING_INPUT
                for o in outcomes.values()
            )
    per = (chat.calls / count, chat.chars / count, chat.chars_with_shape / count)
    return Cost(*per, failed)


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=50)
    count = parser.parse_args().samples
    print(f"{count} samples, five contexts of 120 words; per sample:")
    print("| metrics | asked | calls | prompt characters | with shapes | at most | not scored |")
    print("|---|---|---|---|---|---|---|")
    for name, metrics in SETS.items():
        for way, options in WAYS.items():
            found = cost(metrics, options, count)
            calls, chars = LIMITS.get((name, way), ("", ""))
            limit = f"{calls} calls, {chars:,}" if chars else f"{calls}"
            print(
                f"| {name} | {way} | {found.calls:.2f} | {found.chars:,.0f} "
                f"| {found.with_shape:,.0f} | {limit} | {found.failed} |"
            )
    print(f"best-known library, ten metrics: {PUBLISHED[0]} calls, {PUBLISHED[1]:,} characters")


if __name__ == "__main__":
    main()
