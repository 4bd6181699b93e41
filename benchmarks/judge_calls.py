"""Judge calls and characters per sample, by metrics.

    python -m benchmarks.judge_calls [--samples 50] [--json FILE]

The judge is in-process and truthful; what is counted is what `LLMJudge` sends, the system and
user texts of every call, and what it gets back. Endpoints without JSON Schema also get the reply's
shape in the text; that is the second figure. Embedding calls are not judge calls.

Below the table stands the share of the characters of contexts that the prompt cache of an
endpoint serves, which knows the beginning of a prompt from its first reply on.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from benchmarks.table import parser_of, written
from rag_eval_hooks import NotScored, RagEval
from rag_eval_hooks.judges.llm import LLMJudge
from rag_eval_hooks.judges.openai import OpenAIJudge
from rag_eval_hooks.prompts import Prompt
from rag_eval_hooks.score import Cause
from tests.servers.brain import embedding, truthful_reply
from tests.servers.judge_server import JudgeServer
from tests.servers.prefix_cache import PrefixCache
from tests.support.corpus import samples

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
MOST = {"ten (ragas, nvidia)": 8 + 1 + 6, "reference-free (ragas)": 4, "all suites": 22}
"""Calls: for the ten metrics eight, question generation, and Nvidia's six independent ratings."""
PUBLISHED = (35, 153_000)
"""Calls and characters of the best-known library for the ten metrics, on such samples."""


class CountingChat:
    """A truthful model that counts."""

    name = "counting"

    def __init__(self) -> None:
        self.calls = self.chars = self.chars_with_shape = self.replied = 0

    async def complete(self, prompt: Prompt) -> str:
        """The right reply."""
        self.calls += 1
        self.chars += len(prompt.system) + len(prompt.user)
        self.chars_with_shape += len(prompt.system) + len(prompt.user_with_shape)
        body = {"messages": [{"role": "user", "content": prompt.user_with_shape}]}
        reply = json.dumps(truthful_reply(body))
        self.replied += len(reply)
        return reply

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
        replied: Characters of the replies.
        failed: Outcomes, of all samples, that are absent through a failure.
    """

    calls: float
    chars: float
    with_shape: float
    replied: float
    failed: int


def cost(metrics: Sequence[str], count: int) -> Cost:
    """What judging samples by these metrics takes."""
    chat = CountingChat()
    judge = LLMJudge(chat)
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
    return Cost(
        calls=chat.calls / count,
        chars=chat.chars / count,
        with_shape=chat.chars_with_shape / count,
        replied=chat.replied / count,
        failed=failed,
    )


def cached(stagger: bool, count: int) -> float:
    """Share of the characters of contexts, in all calls of the ten metrics, that a cache serves."""
    served = whole = 0
    with JudgeServer(latency=0.1, cache=PrefixCache()) as server:
        judge = OpenAIJudge("m", base_url=server.url, api_key="k", stagger=stagger)
        with RagEval(SETS["ten (ragas, nvidia)"], judge=judge, embedder="none") as evals:
            for sample in samples(count):
                evals.evaluate(sample)
        for call in server.calls():
            text = "\n".join(message["content"] for message in call.body["messages"])
            start = text.find('"chunks":{"1"')
            if start >= 0:
                size = text.index("\n</data", start) - start
                whole += size
                served += min(max(call.cached - start, 0), size)
    return served / whole


def main() -> None:
    """Prints the table."""
    parser = parser_of(__doc__)
    parser.add_argument("--samples", type=int, default=50)
    given = parser.parse_args()
    count = given.samples
    print(f"{count} samples, five contexts of 120 words; per sample:")
    rows = []
    for name, metrics in SETS.items():
        rows.append({"metrics": name} | asdict(cost(metrics, count)) | {"most calls": MOST[name]})
    written(rows, given.json)
    for stagger in (True, False):
        share = cached(stagger, min(count, 10))
        how = "staggered" if stagger else "all at once"
        print(f"contexts served by a prompt cache, ten metrics, {how}: {share:.0%}")
    print(f"best-known library, ten metrics: {PUBLISHED[0]} calls, {PUBLISHED[1]:,} characters")


if __name__ == "__main__":
    main()
