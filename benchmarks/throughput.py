"""How fast samples are judged, against the bound that latency and concurrency set.

The judge server runs as a process of its own and answers every request, truthfully, after a
fixed latency. The bound is judge calls x latency / concurrency. CPU is that of this process, all
threads, after a warm-up. The last run has 5 % of requests refused with 429 and 5 % of replies
malformed; its scores are compared with those of the sound runs, one by one. Beside it stands the
least that so many calls take on this machine at this moment: a bare HTTP client that asks for one
fixed reply, at the same concurrency, and does nothing with it.

    python -m benchmarks.throughput [--samples 200] [--metrics ragas,nvidia ...]
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import aiohttp

from rag_eval_hooks import NotScored, Outcome, RagEval, RagEvalConfig, Sample
from rag_eval_hooks.errors import RagEvalError
from rag_eval_hooks.judges.openai import OpenAIJudge
from rag_eval_hooks.judges.openai_embedder import OpenAIEmbedder
from rag_eval_hooks.testing import MemorySink
from tests.servers.faults import REPLY_FAULTS, Fault, FaultKind
from tests.servers.judge_server import JudgeServer
from tests.support.corpus import samples

CONCURRENCY = 16
SAMPLES_AT_ONCE = 2 * CONCURRENCY
"""A sample waits for one call before it makes the next: twice as many keep all slots busy."""
RATE = 0.05
HARMLESS = (FaultKind.PROSE, FaultKind.FENCE, FaultKind.REORDERED)
"""What our reader reads as it is: these would make the share of malformed replies look larger."""
WARM_UP = 4
Scores = dict[tuple[str | None, str], Outcome]


@dataclass(frozen=True, slots=True)
class Run:
    """One run over all samples.

    Attributes:
        wall: Seconds.
        cpu: Seconds of this process.
        calls: Judge calls, retries included.
        scores: Outcomes by question and metric.
    """

    wall: float
    cpu: float
    calls: int
    scores: Scores


@contextlib.contextmanager
def server(latency: float, *, faulty: bool = False) -> Iterator[str]:
    """A judge server in a process of its own; gives its URL."""
    command = [sys.executable, "-m", "benchmarks.throughput", "--serve", str(latency)]
    process = subprocess.Popen(command + ["--faulty"] * faulty, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
    finally:
        process.terminate()
        process.wait()


def serve(latency: float, *, faulty: bool) -> None:
    """Serves until the process is ended."""
    kinds = [kind for kind in REPLY_FAULTS if kind not in HARMLESS]
    malformed = [Fault(kind=kind, rate=RATE / len(kinds)) for kind in kinds]
    refused = Fault(kind=FaultKind.RATE_LIMIT, rate=RATE, retry_after="0.1")
    judge = JudgeServer(latency=latency, faults=[refused, *malformed] if faulty else [])
    print(judge.url, flush=True)
    judge.run()


def run(url: str, batch: Sequence[Sample], metrics: Sequence[str]) -> Run:
    """Offers all samples at once and waits until they are scored."""
    judge = OpenAIJudge("m", base_url=url, api_key="k", concurrency=CONCURRENCY)
    embedder = OpenAIEmbedder("e", base_url=url, api_key="k", concurrency=CONCURRENCY)
    sink = MemorySink()
    config = RagEvalConfig(judge_concurrency=SAMPLES_AT_ONCE)
    with RagEval(metrics, judge, sinks=[sink], config=config, embedder=embedder) as evals:
        for sample in samples(WARM_UP, seed=1):
            evals.offer(sample)
        evals.flush()
        sink.results.clear()
        cpu, wall = time.process_time(), time.perf_counter()
        for sample in batch:
            evals.offer(sample)
        if not evals.flush(600):
            raise RagEvalError("not all samples were scored in time")
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    scores = {
        (result.sample.question_id, name): outcome
        for result in sink.results
        for name, outcome in result.outcomes.items()
    }
    return Run(wall, cpu, _calls(scores), scores)


def bare(url: str, calls: int) -> Run:
    """The same number of calls by a bare client."""
    body = {
        "model": "m",
        "messages": [{"role": "user", "content": "word " * 700}],
        "temperature": 0,
    }

    async def caller(session: aiohttp.ClientSession, count: int) -> None:
        for _ in range(count):
            async with session.post(f"{url}/chat/completions", json=body) as response:
                await response.json()

    async def all_calls() -> None:
        async with aiohttp.ClientSession() as session:
            share = calls // CONCURRENCY
            await asyncio.gather(*(caller(session, share) for _ in range(CONCURRENCY)))

    cpu, wall = time.process_time(), time.perf_counter()
    asyncio.run(all_calls())
    return Run(time.perf_counter() - wall, time.process_time() - cpu, calls, {})


def _calls(scores: Scores) -> int:
    """Judge calls, as the usage on the outcomes adds them up; embedding calls have none."""
    return round(sum(outcome.usage.calls for outcome in scores.values()))


def report(title: str, latency: float, count: int, found: Run) -> str:
    """One row of the table."""
    bound = found.calls * latency / CONCURRENCY
    return (
        f"| {title} | {found.calls} | {bound:.2f} | {found.wall:.2f} | {found.wall / bound:.3f} "
        f"| {found.cpu / count * 1000:.1f} |"
    )


def compare(sound: Run, faulty: Run) -> str:
    """What the faults did to the scores."""
    lost = [key for key, outcome in faulty.scores.items() if isinstance(outcome, NotScored)]
    wrong = [
        key
        for key, outcome in faulty.scores.items()
        if not isinstance(outcome, NotScored) and _differs(outcome, sound.scores[key])
    ]
    more = faulty.calls / sound.calls - 1
    return (
        f"with faults: {len(faulty.scores)} scores, {len(lost)} not scored {lost[:3]}, "
        f"{len(wrong)} wrong {wrong[:3]}, {more:.1%} more calls"
    )


def _differs(one: Outcome, other: Outcome) -> bool:
    return getattr(one, "value", None) != getattr(other, "value", None)


def table(metrics: Sequence[str], count: int) -> None:
    """Prints the rows for one choice of metrics."""
    batch = samples(count)
    print(f"\n{count} samples, {', '.join(metrics)}, concurrency {CONCURRENCY}")
    print("| latency | judge calls | bound, s | wall, s | wall / bound | CPU, ms a sample |")
    print("|---|---|---|---|---|---|")
    for latency in (0.05, 0.5):
        with server(latency) as url:
            sound = run(url, batch, metrics)
            least = bare(url, sound.calls)
        print(report(f"{latency * 1000:.0f} ms, bare client", latency, count, least))
        print(report(f"{latency * 1000:.0f} ms", latency, count, sound), flush=True)
    with server(0.05, faulty=True) as url:
        faulty = run(url, batch, metrics)
    print(report("50 ms, faults", 0.05, count, faulty))
    print(compare(sound, faulty), flush=True)


def main() -> None:
    """Prints the tables, or serves."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=200)
    parser.add_argument("--metrics", nargs="+", default=["ragas", "ragas,nvidia"])
    parser.add_argument("--serve", type=float)
    parser.add_argument("--faulty", action="store_true")
    options = parser.parse_args()
    if options.serve is not None:
        serve(options.serve, faulty=options.faulty)
        return
    for metrics in options.metrics:
        table(metrics.split(","), options.samples)


if __name__ == "__main__":
    main()
