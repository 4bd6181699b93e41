"""Send mixed requests at ten times a faulty judge's capacity, then check the statistics.

    python -m benchmarks.soak --minutes 30

LangChain requests succeed, stream, fail, are cancelled or are closed early. Some requests get
feedback. The judge answers late, rejects, hangs or drops the connection.

The exit code is 0 if all of these are true at the end, else 1:

- Every request is counted once.
- Every evaluated sample is in the results file once.
- No span is open.
- Memory has not grown by more than `--growth` MB.
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
import threading
import time
import uuid
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, Final

from langchain_core.documents import Document
from langchain_core.language_models import FakeListChatModel
from langchain_core.runnables import Runnable, RunnableLambda
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor, TracerProvider

from rag_eval_hooks import RagEval, Sample
from rag_eval_hooks_langchain import RagEvalCallbackHandler
from tests.servers.faults import HTTP_FAULTS, Fault
from tests.servers.judge_server import JudgeServer
from tests.support.corpus import samples

LATENCY: Final = 0.2
SLOTS: Final = 2
OVERLOAD: Final = 10
BLOCK_S: Final = 5.0
GRACE_S: Final = 10.0
OURS: Final = "rag-eval"
ENDS: Final = ("error", "cancelled", "closed")


class OpenSpans(SpanProcessor):
    """Counts spans that started and have not ended."""

    def __init__(self) -> None:
        self.count = 0
        self._lock = threading.Lock()

    def on_start(self, span: Span, parent_context: Any = None) -> None:
        with self._lock:
            self.count += 1

    def on_end(self, span: ReadableSpan) -> None:
        with self._lock:
            self.count -= 1


class Application:
    """A chain that answers from samples, and the outcomes of its requests.

    Args:
        evals: The evaluator under test.
        batch: Samples; a question starts with the number of its sample.
    """

    def __init__(self, evals: RagEval, batch: list[Sample]) -> None:
        self.evals, self.batch = evals, batch
        self.sent: Counter[str] = Counter()
        self.feedback = 0
        self.troubles: Counter[str] = Counter()
        self.chain = self._chain()

    def config(self) -> Any:
        return {"callbacks": [RagEvalCallbackHandler(self.evals)], "run_id": uuid.uuid4()}

    def _chain(self) -> Runnable[Any, Any]:
        def sample(question: str) -> Sample:
            return self.batch[int(question.split(" ", 1)[0])]

        def retrieve(question: str) -> Any:
            documents = [Document(page_content=c.text) for c in sample(question).contexts or ()]
            return {"question": question, "documents": documents}

        def generate(state: dict[str, Any]) -> Any:
            if "FAIL" in state["question"]:
                raise ConnectionError
            shown = "\n".join(document.page_content for document in state["documents"])
            model = FakeListChatModel(responses=[sample(state["question"]).answer or ""])
            return RunnableLambda(lambda state: f"{shown}\n{state['question']}") | model

        return RunnableLambda(retrieve) | RunnableLambda(generate)


async def _answered(app: Application, question: str) -> str:
    config = app.config()
    await app.chain.ainvoke(question, config)
    if random.random() < 0.2:
        app.feedback += 1
        app.evals.feedback(config["run_id"], score=1.0)
    return "ok"


async def _in_thread(app: Application, question: str) -> str:
    await asyncio.to_thread(app.chain.invoke, question, app.config())
    return "ok"


async def _streamed(app: Application, question: str) -> str:
    async for _ in app.chain.astream(question, app.config()):
        pass
    return "ok"


async def _closed(app: Application, question: str) -> str:
    reading: Any = app.chain.astream(question, app.config())
    async with contextlib.aclosing(reading) as chunks:
        async for _ in chunks:
            break
    return "closed"


async def _failed(app: Application, question: str) -> str:
    with contextlib.suppress(ConnectionError):
        await app.chain.ainvoke(f"{question} FAIL", app.config())
    return "error"


async def _offered(app: Application, question: str) -> str:
    sample = app.batch[int(question.split(" ", 1)[0])]
    app.evals.submit(dataclasses.replace(sample, sample_id=uuid.uuid4().hex))
    return "ok"


KINDS: Final[tuple[Callable[[Application, str], Awaitable[str]], ...]] = (
    _answered,
    _in_thread,
    _streamed,
    _closed,
    _failed,
    _offered,
)


async def _serve(app: Application, rate: float, seconds: float) -> None:
    """Send requests at a fixed rate, and record exceptions that reach the application."""
    tasks: set[asyncio.Task[None]] = set()

    async def one(kind: Callable[[Application, str], Awaitable[str]], question: str) -> None:
        try:
            app.sent[await kind(app, question)] += 1
        except Exception as error:  # noqa: BLE001 - what must never happen is reported
            app.troubles[type(error).__name__] += 1

    end = time.monotonic() + seconds
    while time.monotonic() < end:
        number = random.randrange(len(app.batch))
        task = asyncio.create_task(one(random.choice(KINDS), f"{number} {uuid.uuid4()} what?"))
        tasks.add(task)
        task.add_done_callback(tasks.discard)
        await asyncio.sleep(1 / rate)
    await asyncio.gather(*tasks)


def _memory_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * 4096 / 1e6


def _in_file(path: Path) -> Counter[str]:
    found: Counter[str] = Counter()
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            if "outcomes" in row:
                found[row["result_id"]] += 1
    return found


def check_books(app: Application, path: Path) -> Iterator[str]:
    """Yield every mismatch between sent requests, statistics and the results file."""
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
    found = _in_file(path)
    if twice := sum(count > 1 for count in found.values()):
        yield f"{twice} results twice in the file"
    if len(found) < stats.scored:
        yield f"scored {stats.scored}, in the file {len(found)}"


def check_leftovers(spans: OpenSpans) -> Iterator[str]:
    if spans.count:
        yield f"{spans.count} spans are open"
    end = time.monotonic() + GRACE_S
    while (left := _threads()) and time.monotonic() < end:
        time.sleep(0.1)
    if left:
        yield f"threads left: {left}"


def _threads() -> list[str]:
    return [one.name for one in threading.enumerate() if one.name.startswith(OURS)]


def _soak(options: argparse.Namespace, folder: Path) -> list[str]:
    faults = [Fault(kind=kind, rate=0.01) for kind in HTTP_FAULTS]
    spans, provider, path = OpenSpans(), TracerProvider(), folder / "results.jsonl"
    provider.add_span_processor(spans)
    memory: list[float] = []
    with JudgeServer(latency=LATENCY, faults=faults, slots=SLOTS, keep=False) as judge:
        evals = RagEval(
            ["ragas.faithfulness"],
            judge="openai:soak",
            judge_base_url=judge.url,
            judge_api_key="soak",
            judge_concurrency=SLOTS,
            judge_timeout=2.0,
            queue_size=10,
            sample_rate=0.8,
            embedder="none",
            spool=str(folder / "spool"),
            sinks=f"jsonl:{path}",
            tracer_provider=provider,
        )
        app = Application(evals, samples(200))
        rate, end = OVERLOAD * SLOTS / LATENCY / 2, time.monotonic() + 60 * options.minutes
        while time.monotonic() < end:
            asyncio.run(_serve(app, rate, min(BLOCK_S, max(0.5, end - time.monotonic()))))
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
    findings = [*check_books(app, path), *check_leftovers(spans)]
    if growth > options.growth:
        findings.append(f"memory grew by {growth:.0f} MB, allowed {options.growth:.0f}")
    troubles = (f"{name} reached the application {n} times" for name, n in app.troubles.items())
    return [*findings, *troubles]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument(
        "--growth", type=float, default=40.0, help="largest allowed growth of memory in MB"
    )
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
