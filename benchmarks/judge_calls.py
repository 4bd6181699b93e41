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

from benchmarks.table import parser_of, written
from rag_eval_hooks import NotScored, RagEval, Sample
from rag_eval_hooks.judges.llm import LLMJudge
from rag_eval_hooks.judges.openai import OpenAIJudge
from rag_eval_hooks.prompts import Prompt
from rag_eval_hooks.score import Cause
from tests.servers.brain import WordEmbedder, truthful_reply
from tests.servers.judge_server import JudgeServer
from tests.servers.prefix_cache import PrefixCache
from tests.support.corpus import samples

TEN = "ten (ragas, nvidia)"
SETS: Mapping[str, Sequence[str]] = {
    TEN: (
        *("ragas.answer_relevancy", "ragas.faithfulness", "ragas.context_precision"),
        *("ragas.context_precision_without_reference", "ragas.context_recall"),
        *("ragas.context_entity_recall", "ragas.noise_sensitivity", "nvidia"),
    ),
    "reference-free (ragas)": (
        *("ragas.faithfulness", "ragas.answer_relevancy", "ragas.context_precision"),
    ),
    "all suites": ("all",),
}
MOST = {TEN: 8 + 1 + 6, "reference-free (ragas)": 4, "all suites": 22}
"""Calls: for the ten metrics eight, question generation, and Nvidia's six independent ratings."""
PUBLISHED = (35, 153_000)
"""Calls and characters of the best-known library for the ten metrics, on such samples."""


class CountingChat:
    """A truthful model that counts."""

    name = "counting"

    def __init__(self) -> None:
        self.calls = self.chars = self.chars_with_shape = self.replied = 0

    async def complete(self, prompt: Prompt) -> str:
        self.calls += 1
        self.chars += len(prompt.system) + len(prompt.user)
        self.chars_with_shape += len(prompt.system) + len(prompt.user_with_shape)
        body = {"messages": [{"role": "user", "content": prompt.user_with_shape}]}
        reply = json.dumps(truthful_reply(body))
        self.replied += len(reply)
        return reply

    async def aclose(self) -> None: ...


def cost(metrics: Sequence[str], count: int) -> dict[str, float]:
    """Return what judging a sample takes; `failed` counts outcomes absent through a failure."""
    chat, failed = CountingChat(), 0
    has_reference = any(name in ("all", "nvidia") for name in metrics)
    with RagEval(metrics, LLMJudge(chat), embedder=WordEmbedder()) as evals:
        for sample in samples(count):
            given = sample.to_dict()
            if not has_reference:
                del given["reference"]
            outcomes = evals.evaluate(Sample.from_dict(given)).values()
            absent = [one for one in outcomes if isinstance(one, NotScored)]
            failed += sum(one.cause is not Cause.MISSING_INPUT for one in absent)
    return {
        "calls": chat.calls / count,
        "chars": chat.chars / count,
        "with_shape": chat.chars_with_shape / count,
        "replied": chat.replied / count,
        "failed": failed,
    }


def cached(stagger: bool, count: int) -> float:
    """Return the share of the contexts' characters, in the ten metrics, that a cache serves."""
    served = whole = 0
    with JudgeServer(latency=0.1, cache=PrefixCache()) as server:
        judge = OpenAIJudge("m", base_url=server.url, api_key="k", stagger=stagger)
        with RagEval(SETS[TEN], judge=judge, embedder="none") as evals:
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
    parser = parser_of(__doc__)
    parser.add_argument("--samples", type=int, default=50)
    given = parser.parse_args()
    print(f"{given.samples} samples, five contexts of 120 words; per sample:")
    rows = [
        {"metrics": name, **cost(metrics, given.samples), "most calls": MOST[name]}
        for name, metrics in SETS.items()
    ]
    written(rows, given.json)
    for stagger in (True, False):
        share = cached(stagger, min(given.samples, 10))
        how = "staggered" if stagger else "all at once"
        print(f"contexts served by a prompt cache, ten metrics, {how}: {share:.0%}")
    print(f"best-known library, ten metrics: {PUBLISHED[0]} calls, {PUBLISHED[1]:,} characters")


if __name__ == "__main__":
    main()
