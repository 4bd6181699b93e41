"""Judge calls and characters per sample, by metrics and by way of asking.

    python -m benchmarks.judge_calls [--samples 50] [--json FILE]
    python -m benchmarks.judge_calls --labelled FILE [--limit 200] [--judge NAME]

The judge is in-process and truthful; what is counted is what `LLMJudge` sends, the system and
user texts of every call, and what it gets back. Endpoints without JSON Schema also get the reply's
shape in the text; that is the second figure. Embedding calls are not judge calls.

Below the table stands the share of the characters of contexts that the prompt cache of an
endpoint serves, which knows the beginning of a prompt from its first reply on.

With `--labelled` all metrics are asked of any judge in both ways, fused and single, and its
faithfulness is held against labels: JSON lines with `question`, `contexts`, `answer`, perhaps
`reference`, and `labels: {"hallucinated": true or false}`. `--judge` names the judge as in the
setting `judge`, whose other settings come from RAG_EVAL_*; without it, the truthful judge shows
that the command works.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.corpus import samples
from benchmarks.embedded_judge import Row, Scored, auroc, read
from benchmarks.table import parser_of, written
from rag_eval_hooks import Judge, NotScored, RagEval, Sample, Score
from rag_eval_hooks.judges.chat import Completion
from rag_eval_hooks.judges.llm import LLMJudge
from rag_eval_hooks.judges.openai import OpenAIJudge
from rag_eval_hooks.prompts import Prompt
from rag_eval_hooks.score import Cause
from tests.servers.brain import embedding, truthful_reply
from tests.servers.judge_server import JudgeServer
from tests.servers.prefix_cache import PrefixCache

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
    "fused, independent": {"nvidia_calls": "independent"},
    "single": {"calls": "single"},
}
LIMITS = {
    ("ten (ragas, nvidia)", "fused"): (8, 32_000, 5_000),
    ("reference-free (ragas)", "fused"): (2, 9_000),
    ("all suites", "fused"): (12,),
}
PUBLISHED = (35, 153_000)
"""Calls and characters of the best-known library for the ten metrics, on such samples."""


class CountingChat:
    """A truthful model that counts."""

    name = "counting"

    def __init__(self) -> None:
        self.calls = self.chars = self.chars_with_shape = self.replied = 0

    async def complete(self, prompt: Prompt) -> Completion:
        """The right reply."""
        self.calls += 1
        self.chars += len(prompt.system) + len(prompt.user)
        self.chars_with_shape += len(prompt.system) + len(prompt.user_with_shape)
        body = {"messages": [{"role": "user", "content": prompt.user_with_shape}]}
        reply = json.dumps(truthful_reply(body))
        self.replied += len(reply)
        return Completion(reply)

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


def compare(rows: Sequence[Row], judge: str | None) -> None:
    """Print faithfulness against labels, by the way of asking."""
    with ExitStack() as stack:
        url = stack.enter_context(JudgeServer()).url if judge is None else None
        model = (judge or "openai:truthful").partition(":")[2]
        found = {
            calls: values(rows, OpenAIJudge(model, base_url=url, calls=calls))
            for calls in ("fused", "single")
        }
    for way, by_row in found.items():
        scored = [
            Scored(value, not row["labels"]["hallucinated"])
            for row, value in zip(rows, by_row, strict=True)
            if value is not None
        ]
        print(f"{way}: AUROC {auroc(scored):.3f}, {len(scored)} of {len(rows)} rows scored")
    pairs = list(zip(*found.values(), strict=True))
    same = sum(one == other for one, other in pairs)
    print(f"same faithfulness: {same} of {len(pairs)} rows")


def values(rows: Sequence[Row], judge: Judge) -> list[float | None]:
    """Faithfulness of each row, asked for beside all other metrics."""
    found = []
    with RagEval("all", judge, embedder="none") as evals:
        for row in rows:
            names = ("question", "contexts", "answer", "reference")
            sample = Sample.from_dict({name: row[name] for name in names if row.get(name)})
            score = evals.evaluate(sample)["ragas.faithfulness"]
            found.append(score.value if isinstance(score, Score) else None)
    return found


def main() -> None:
    """Prints the table."""
    parser = parser_of(__doc__)
    parser.add_argument("--samples", type=int, default=50)
    parser.add_argument("--labelled", type=Path)
    parser.add_argument("--limit", type=int, default=200)
    parser.add_argument("--judge")
    given = parser.parse_args()
    if given.labelled:
        compare(read(given.labelled)[: given.limit], given.judge)
        return
    count = given.samples
    print(f"{count} samples, five contexts of 120 words; per sample:")
    rows = []
    for name, metrics in SETS.items():
        for way, options in WAYS.items():
            found = cost(metrics, options, count)
            limits = (*LIMITS.get((name, way), ()), None, None, None)
            most = dict(zip(("most calls", "most chars", "most replied"), limits, strict=False))
            rows.append({"metrics": name, "asked": way} | asdict(found) | most)
    written(rows, given.json)
    for stagger in (True, False):
        share = cached(stagger, min(count, 10))
        how = "staggered" if stagger else "all at once"
        print(f"contexts served by a prompt cache, ten metrics, {how}: {share:.0%}")
    print(f"best-known library, ten metrics: {PUBLISHED[0]} calls, {PUBLISHED[1]:,} characters")


if __name__ == "__main__":
    main()
