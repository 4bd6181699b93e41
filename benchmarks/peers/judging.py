"""Score the faithfulness of samples with one library and a judge server.

    python -m benchmarks.peers.judging rag-eval-hooks http://127.0.0.1:8000/v1 < samples.json

The module runs in the library's environment, and scores eight samples at a time. The measured time
excludes imports.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import json
import logging
import os
import sys
import time
import warnings
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

AT_ONCE = 8
KEY, MODEL = "bench", "gpt-4o-mini"
Given = dict[str, Any]
Score = Callable[[Given], Awaitable[float | None]]
load = importlib.import_module


def ours(url: str) -> Score:
    hooks, openai = load("rag_eval_hooks"), load("rag_eval_hooks.judges.openai")
    judge = openai.OpenAIJudge(MODEL, base_url=url, api_key=KEY)
    evals = hooks.RagEval(metrics=["ragas.faithfulness"], judge=judge, judge_concurrency=AT_ONCE)

    async def score(sample: Given) -> float | None:
        outcome = (await evals.aevaluate(sample))["ragas.faithfulness"]
        return outcome.value if isinstance(outcome, hooks.Score) else None

    return score


def ragas(url: str) -> Score:
    client = load("openai").AsyncOpenAI(base_url=url, api_key=KEY)
    llm = load("ragas.llms").llm_factory(MODEL, client=client)
    metric = load("ragas.metrics.collections").Faithfulness(llm=llm)

    async def score(sample: Given) -> float | None:
        texts = {"user_input": sample["question"], "response": sample["answer"]}
        result = await metric.ascore(**texts, retrieved_contexts=sample["contexts"])
        return float(result.value)

    return score


def deepeval(url: str) -> Score:
    metrics, case = load("deepeval.metrics"), load("deepeval.test_case").LLMTestCase
    model = load("deepeval.models").GPTModel(MODEL, base_url=url, api_key=KEY)

    async def score(sample: Given) -> float | None:
        texts = {"input": sample["question"], "actual_output": sample["answer"]}
        test = case(**texts, retrieval_context=sample["contexts"])
        metric = metrics.FaithfulnessMetric(model=model)
        return float(await metric.a_measure(test, _show_indicator=False))

    return score


def trulens(url: str) -> Score:
    # The judge splits the answer into sentences. The default method would download a tokenizer.
    openai = load("trulens.providers.openai").OpenAI
    provider = openai(model_engine=MODEL, base_url=url, api_key=KEY)
    configs = load("trulens.core.feedback.feedback").GroundednessConfigs(
        use_sent_tokenize=False, filter_trivial_statements=True
    )

    async def score(sample: Given) -> float | None:
        value, _ = await asyncio.to_thread(
            provider.groundedness_measure_with_cot_reasons,
            source="\n".join(sample["contexts"]),
            statement=sample["answer"],
            groundedness_configs=configs,
        )
        return float(value)

    return score


LIBRARIES = {"rag-eval-hooks": ours, "ragas": ragas, "deepeval": deepeval, "trulens": trulens}


async def scores(score: Score, samples: Sequence[Given]) -> list[float | None]:
    free = asyncio.Semaphore(AT_ONCE)

    async def one(sample: Given) -> float | None:
        async with free:
            try:
                value = await score(sample)
            except Exception as error:  # noqa: BLE001 - a library that raises has no score
                print(f"{type(error).__name__}: {str(error)[:200]}", file=sys.stderr)
                return None
        return None if value is None or value != value else value

    return list(await asyncio.gather(*map(one, samples)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("library", choices=LIBRARIES)
    parser.add_argument("url")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable()
    os.environ |= {"OPENAI_API_KEY": KEY, "DEEPEVAL_TELEMETRY_OPT_OUT": "1"}
    os.environ |= {"RAGAS_DO_NOT_TRACK": "true"}
    samples = json.load(sys.stdin)
    score = LIBRARIES[options.library](options.url)
    wall, cpu = time.perf_counter(), time.process_time()
    values = asyncio.run(scores(score, samples))
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    print(json.dumps({"scores": values, "wall_s": wall, "cpu_s": cpu}), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
