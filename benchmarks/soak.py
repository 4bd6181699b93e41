"""Send mixed requests at ten times a faulty judge's capacity, then check the statistics.

    python -m benchmarks.soak --minutes 30

LangChain requests succeed, stream or fail, or the caller closes the stream early. Some requests get
feedback. The judge answers late, rejects a call, hangs or drops the connection.

The exit code is 0 if these conditions hold:

- every request is counted once,
- every evaluated sample is in the results file once,
- no span is open,
- memory has not grown by more than 40 MB.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import dataclasses
import json
import logging
import random
import sys
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from langchain_core.documents import Document
from langchain_core.language_models import FakeListChatModel
from langchain_core.runnables import RunnableLambda
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor, TracerProvider

from rag_eval_hooks import RagEval, Sample
from rag_eval_hooks_langchain import RagEvalCallbackHandler
from tests.support.corpus import samples
from tests.support.servers.faults import HTTP_FAULTS, Fault
from tests.support.servers.judge_server import JudgeServer

LATENCY: Final = 0.2
SLOTS: Final = 2
OVERLOAD: Final = 10
BLOCK_S, GROWTH_MB = 5.0, 40.0
ENDS: Final = ("error", "closed")


class OpenSpans(SpanProcessor):
    def __init__(self) -> None:
        self.open: set[int] = set()

    def on_start(self, span: Span, parent_context: Any = None) -> None:
        self.open.add(span.context.span_id)

    def on_end(self, span: ReadableSpan) -> None:
        self.open.discard(span.context.span_id)


class Application:
    def __init__(self, evals: RagEval, batch: list[Sample]) -> None:
        self.evals, self.batch = evals, batch
        self.sent: Counter[str] = Counter()
        self.feedback = 0
        self.troubles: Counter[str] = Counter()
        self.chain: Any = RunnableLambda(self._retrieve) | RunnableLambda(self._generate)

    def sample(self, question: str) -> Sample:
        return self.batch[int(question.split(" ", 1)[0])]

    def _retrieve(self, question: str) -> Any:
        found = [Document(page_content=c.text) for c in self.sample(question).contexts or ()]
        return {"question": question, "documents": found}

    def _generate(self, state: dict[str, Any]) -> Any:
        if "FAIL" in state["question"]:
            raise ConnectionError
        shown = "\n".join(document.page_content for document in state["documents"])
        model = FakeListChatModel(responses=[self.sample(state["question"]).answer or ""])
        return RunnableLambda(lambda state: f"{shown}\n{state['question']}") | model

    async def request(self, question: str) -> None:
        run = uuid.uuid4()
        config: Any = {"callbacks": [RagEvalCallbackHandler(self.evals)], "run_id": run}
        end = "ok"
        match random.choice(("call", "stream", "close", "fail", "submit")):
            case "call":
                await self.chain.ainvoke(question, config)
                if random.random() < 0.2:
                    self.feedback += 1
                    self.evals.feedback(run, score=1.0)
            case "stream":
                async for _ in self.chain.astream(question, config):
                    pass
            case "close":
                end = "closed"
                async with contextlib.aclosing(self.chain.astream(question, config)) as chunks:
                    await anext(chunks)
            case "fail":
                end = "error"
                with contextlib.suppress(ConnectionError):
                    await self.chain.ainvoke(f"{question} FAIL", config)
            case _:
                sample = self.sample(question)
                self.evals.submit(dataclasses.replace(sample, sample_id=uuid.uuid4().hex))
        self.sent[end] += 1

    async def _one(self) -> None:
        try:
            await self.request(f"{random.randrange(len(self.batch))} {uuid.uuid4()} what?")
        except Exception as error:  # noqa: BLE001 - the report must list every exception
            self.troubles[type(error).__name__] += 1

    async def serve(self, rate: float, seconds: float) -> None:
        end = time.monotonic() + seconds
        async with asyncio.TaskGroup() as tasks:
            while time.monotonic() < end:
                tasks.create_task(self._one())
                await asyncio.sleep(1 / rate)


def _memory_mb() -> float:
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * 4096 / 1e6


def check_books(app: Application, path: Path) -> Iterator[str]:
    stats, sent = app.evals.stats(), app.sent
    ended = stats.scored + stats.sampled_out + stats.pending
    ended += sum(stats.dropped.values()) + sum(stats.failed.values())
    if not stats.offered == ended == sent.total():
        yield f"sent {sent.total()}, offered {stats.offered}, ended {ended}"
    for status in ENDS:
        if stats.dropped.get(status, 0) != sent[status]:
            yield f"sent {sent[status]} as {status}, counted {stats.dropped.get(status, 0)}"
    if sum(stats.feedback.values()) != app.feedback:
        yield f"feedback {app.feedback}, counted {dict(stats.feedback)}"
    lines = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    found = Counter(line["result_id"] for line in lines if "outcomes" in line)
    if twice := sum(count > 1 for count in found.values()):
        yield f"{twice} results twice in the file"
    if len(found) < stats.scored:
        yield f"scored {stats.scored}, in the file {len(found)}"


def _soak(options: argparse.Namespace, folder: Path) -> list[str]:
    faults = [Fault(kind=kind, rate=0.01) for kind in HTTP_FAULTS]
    spans, provider, path = OpenSpans(), TracerProvider(), folder / "results.jsonl"
    provider.add_span_processor(spans)
    memory: list[float] = []
    with JudgeServer(latency=LATENCY, faults=faults, slots=SLOTS, keep=False) as judge:
        endpoint: Any = {"judge_base_url": judge.url, "judge_api_key": "soak", "judge_timeout": 2.0}
        bounds: Any = {"judge_concurrency": SLOTS, "queue_size": 10, "sample_rate": 0.8}
        evals = RagEval(
            ["ragas.faithfulness"],
            judge="openai:soak",
            embedder="none",
            spool=str(folder / "spool"),
            sinks=f"jsonl:{path}",
            tracer_provider=provider,
            **endpoint,
            **bounds,
        )
        app = Application(evals, samples(200))
        rate, end = OVERLOAD * SLOTS / LATENCY / 2, time.monotonic() + 60 * options.minutes
        while time.monotonic() < end:
            asyncio.run(app.serve(rate, min(BLOCK_S, max(0.5, end - time.monotonic()))))
            evals.flush(60)
            memory.append(_memory_mb())
        evals.shutdown(60)
    stats = evals.stats()
    print(f"{rate:.0f} requests a second; sent {dict(app.sent)}")
    print(f"scored {stats.scored}, dropped {dict(stats.dropped)}, failed {dict(stats.failed)}")
    print(f"incidents {dict(stats.incidents)}")
    third = max(1, len(memory) // 3)
    growth = min(memory[-third:]) - min(memory[third : 2 * third] or memory[:1])
    print(f"memory {memory[0]:.0f} MB after the first block, {memory[-1]:.0f} MB at the end")
    grown = [f"memory grew by {growth:.0f} MB"] * (growth > GROWTH_MB)
    troubles = (f"{name} reached the application {n} times" for name, n in app.troubles.items())
    left = [f"{len(spans.open)} spans are open"] * bool(spans.open)
    return [*check_books(app, path), *left, *grown, *troubles]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0)
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    with tempfile.TemporaryDirectory(prefix="soak-") as folder:
        findings = _soak(options, Path(folder))
    for finding in findings:
        print(f"WRONG: {finding}")
    print("all checks passed" if not findings else f"{len(findings)} checks failed")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
