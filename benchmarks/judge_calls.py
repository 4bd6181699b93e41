"""Count judge calls and characters per sample, by metrics and by judge.

    python -m benchmarks.judge_calls [--samples 50] [--speed 500] [--json FILE]

The first table uses a judge in this process that always replies correctly. The table counts calls,
prompt characters and reply characters per sample. `with_shape` counts prompt characters if each
prompt describes the reply's form. `failed` counts the failed metrics of all samples together.

A line below the table shows the share of context characters that a prompt cache serves. The cache
stores the beginning of a prompt when its reply arrives.

The last table compares judges on the eight metrics that a decision model can decide. `a minute`
counts samples per minute, with a server that replies after 100 ms. `bytes` is the size of the JSON
requests, and `characters` is the length of their texts.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.table import parser_of, written
from rag_eval_hooks import Cascade, NotScored, RagEval, Sample
from rag_eval_hooks.judges.llm import LLMJudge
from rag_eval_hooks.judges.openai import OpenAIJudge
from rag_eval_hooks.prompts.prompt import Prompt
from rag_eval_hooks.score import Cause
from tests.support.corpus import EIGHT, samples
from tests.support.servers.brain import WordEmbedder, truthful_reply
from tests.support.servers.decision_server import DecisionServer, characters
from tests.support.servers.judge_server import JudgeServer, PrefixCache

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
# Maximum number of calls per sample. Nvidia's ratings need six calls, and questions need one.
MOST = {TEN: 8 + 1 + 6, "reference-free (ragas)": 4, "all suites": 22}


class CountingChat:
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
    row = {"calls": chat.calls, "chars": chat.chars, "with_shape": chat.chars_with_shape}
    row |= {"replied": chat.replied}
    return {**{name: number / count for name, number in row.items()}, "failed": failed}


def cached(count: int) -> float:
    served = whole = 0
    with JudgeServer(latency=0.1, cache=PrefixCache()) as server:
        judge = OpenAIJudge("m", base_url=server.url, api_key="k")
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


def judges_at(url: str) -> dict[str, Any]:
    return {
        "openai-decisions": "openai-decisions:m",
        "systemone": f"systemone:{url}",
        "openai (LLM)": "openai:m",
        "cascade": Cascade(f"systemone:{url}", "openai:m"),
    }


def by_judge(count: int, speed: int) -> list[dict[str, Any]]:
    rows = []
    for name in judges_at(""):
        with DecisionServer() as server:
            with evals_at(server.url, name) as evals:
                for sample in samples(count):
                    evals.evaluate(sample)
            chats, decisions = server.calls(), server.decisions()
        chars = sum(call.prompt_chars for call in chats)
        chars += sum(characters(call.body) for call in decisions)
        replied = sum(len(json.dumps(truthful_reply(call.body))) // 4 for call in chats)
        sent = sum(len(json.dumps(call.body, ensure_ascii=False)) for call in server.requests)
        row = {"judge": name, "requests": (len(chats) + len(decisions)) / count}
        row |= {"characters": chars / count, "bytes": sent / count, "tokens out": replied / count}
        rows.append({**row, "a minute": samples_a_minute(name, speed) if speed else None})
    return rows


def evals_at(url: str, name: str, **options: Any) -> RagEval:
    address = {"judge_base_url": url, "judge_api_key": "k", "embedder": "none"}
    return RagEval(EIGHT, judges_at(url)[name], **{**address, **options})


def samples_a_minute(name: str, count: int) -> float:
    drawn = samples(count)
    limits = {"judge_concurrency": 64, "queue_size": count + 1}
    with (
        DecisionServer(latency=0.1, keep=False) as server,
        evals_at(server.url, name, **limits) as evals,
    ):
        evals.evaluate(samples(1, seed=1)[0])
        began = time.perf_counter()
        for sample in drawn:
            evals.submit(sample)
        evals.flush(3600)
        return 60 * count / (time.perf_counter() - began)


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--samples", type=int, default=50)
    parser.add_argument(
        "--speed", type=int, default=500, help="number of samples for the speed measurement"
    )
    given = parser.parse_args()
    rows = [
        {"metrics": name, **cost(metrics, given.samples), "most calls": MOST[name]}
        for name, metrics in SETS.items()
    ]
    written(rows, given.json)
    share = cached(min(given.samples, 10))
    print(f"share of context text from the prompt cache, ten metrics: {share:.0%}")
    written(by_judge(min(given.samples, 10), given.speed), None)


if __name__ == "__main__":
    main()
