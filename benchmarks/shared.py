"""Several application processes with one spool and one budget: rates, spend, and nothing twice.

Each process is a `RagEval` of its own with rates by metric, a shared spool, a shared budget of
calls and tokens, and a judge server on loopback that sees every call. The realised rates are held
against binomial bounds, the spend against the limit and one call in flight for each process, and
what the processes had seen accepted against the file of results.

    python -m benchmarks.shared [--processes 8] [--samples 300]
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from benchmarks.corpus import samples
from rag_eval_hooks import RagEval, RagEvalConfig
from rag_eval_hooks.incidents import Incidents
from rag_eval_hooks.judges.calls.budget import budget_of
from rag_eval_hooks.judges.calls.budget_store import Spend
from rag_eval_hooks.judges.local import LocalJudge
from rag_eval_hooks.judges.openai import OpenAIJudge
from tests.servers.brain import truthful_reply
from tests.servers.judge_server import JudgeServer

__all__ = ["RATES", "Report", "run"]

RATES = {"lexical.keyword_coverage": 0.5, "ragas.faithfulness": 0.2}
"""Inclusion probabilities: one free metric, one of two calls."""
_CALLS_SHARE, _TOKENS_SHARE = 1.0, 0.5
"""The budget's part of what would be asked without one: the tokens run out."""
_TOKENS_EACH = 700
"""Tokens of one call, about."""
_SIGMAS = 4.0


@dataclass(slots=True)
class Report:
    """What came of it.

    Attributes:
        processes: How many.
        offered: Samples offered.
        accepted: Of these, those whose acceptance a process has seen.
        undurable: Of these, those that were done before the spool's file was free for them.
        delivered: Results in the file.
        missing: Accepted samples that are not in the file.
        twice: Samples that are there more than once.
        columns: Of the books of all processes together.
        books: The spool's own.
        chosen: Samples by metric for which it was chosen, whether the budget allowed it or not.
        by_process: The same, by process.
        refused: Of these, those that the budget refused.
        calls: That the judge saw.
        largest: Tokens of the largest call.
        limit: The budget.
        spent: By the budget's file.
    """

    processes: int
    offered: int = 0
    accepted: int = 0
    undurable: int = 0
    delivered: int = 0
    missing: int = 0
    twice: int = 0
    columns: Counter[str] = field(default_factory=Counter)
    books: Mapping[str, int] = field(default_factory=dict)
    chosen: Counter[str] = field(default_factory=Counter)
    by_process: Counter[tuple[str, str]] = field(default_factory=Counter)
    refused: int = 0
    calls: int = 0
    largest: int = 0
    limit: Spend = field(default_factory=Spend)
    spent: Spend = field(default_factory=Spend)

    def deviation(self, metric: str) -> float:
        """By how many standard errors the realised rate of a metric is off."""
        return _deviation(self.chosen[metric], self.offered, RATES[metric])

    def findings(self) -> list[str]:
        """What is not as it must be."""
        return [*self._books(), *self._rates(), *self._spend()]

    def _books(self) -> Iterator[str]:
        if sum(self.columns.values()) != self.offered:
            yield f"offered {self.offered}, in the books {dict(self.columns)}"
        if self.missing or self.twice:
            yield f"{self.missing} accepted samples missing, {self.twice} twice"
        settled = sum(count for name, count in self.books.items() if name != "accepted")
        kept = self.accepted - self.undurable
        if not self.books["accepted"] == settled == kept or self.books["pending"]:
            told = f"accepted {self.accepted}, of these undurable {self.undurable}"
            yield f"{told}, the spool's books {dict(self.books)}"

    def _rates(self) -> Iterator[str]:
        each = self.offered // self.processes
        for (metric, name), count in self.by_process.items():
            if abs(_deviation(count, each, RATES[metric])) > _SIGMAS:
                yield f"{metric}: process {name} chose {count} of {each}"
        for metric in RATES:
            if abs(self.deviation(metric)) > _SIGMAS:
                yield f"{metric}: {self.chosen[metric]} chosen of {self.offered}"

    def _spend(self) -> Iterator[str]:
        if self.calls != self.spent.calls or self.calls > self.limit.calls:
            yield f"calls {self.calls}, entered {self.spent.calls}, allowed {self.limit.calls}"
        if abs(self.spent.tokens - self.limit.tokens) > self.processes * self.largest:
            yield f"tokens {self.spent.tokens:.0f}, allowed {self.limit.tokens:.0f}"


def run(folder: Path, processes: int, each: int) -> Report:
    """Starts the processes, waits for their end, and compares."""
    asked = processes * each * RATES["ragas.faithfulness"] * 2
    limit = Spend(math.ceil(asked * _CALLS_SHARE), math.ceil(asked * _TOKENS_SHARE * _TOKENS_EACH))
    report = Report(processes, offered=processes * each, limit=limit)

    def reply(request: Mapping[str, Any]) -> str:
        text = json.dumps(truthful_reply(request))
        sent = sum(len(message["content"]) for message in request["messages"])
        # As the server counts them.
        report.largest = max(report.largest, sent // 4 + len(text) // 4)
        return text

    with JudgeServer(latency=0.01, replies=reply) as server, _one_day():
        started = [_start(folder, server.url, limit, n, each) for n in range(processes)]
        if any(process.wait(300) for process in started):
            raise RuntimeError("a process failed")
        report.spent = _spent(folder, limit)
        report.calls = len(server.calls())
    _read(folder, report)
    return report


def application(folder: Path, url: str, limit: Spend, number: int, each: int) -> None:
    """One process: offers its samples, and ends when they are evaluated."""
    config = RagEvalConfig(
        metrics=tuple(RATES),
        metric_rates=RATES,
        spool=str(folder / "spool"),
        queue_size=each,
        judge_concurrency=1,
        **_budget(folder, limit),
    )
    evals = RagEval(
        judge=OpenAIJudge("m", base_url=url, api_key="k", concurrency=1),
        sinks=[f"jsonl:{folder / 'results.jsonl'}"],
        config=config,
        embedder="none",
    )
    told = []
    for place, sample in enumerate(samples(each, seed=number, contexts=2)):
        name = f"{number}-{place}"
        if evals.offer(replace(sample, sample_id=name)):
            told.append(name)
    evals.flush(240)
    evals.shutdown(10)
    stats = evals.stats()
    columns = {
        "scored": stats.scored,
        "sampled_out": stats.sampled_out,
        **{f"dropped:{reason}": count for reason, count in stats.dropped.items()},
        **{f"failed:{cause}": count for cause, count in stats.failed.items()},
    }
    written = {"told": told, "columns": columns, "undurable": stats.undurable}
    (folder / f"told-{number}.json").write_text(json.dumps(written))


def _budget(folder: Path, limit: Spend) -> dict[str, Any]:
    return {
        "budget": {
            "calls_per_day": limit.calls,
            "tokens_per_day": limit.tokens,
            "path": str(folder / "budget.sqlite"),
        },
    }


@contextmanager
def _one_day() -> Iterator[None]:
    """Begins only where the day's budget does not begin anew meanwhile."""
    left = 86_400 - time.time() % 86_400
    if left < 300:
        time.sleep(left + 1)
    yield


def _start(folder: Path, url: str, limit: Spend, number: int, each: int) -> subprocess.Popen[bytes]:
    values = (folder, url, limit.calls, limit.tokens, number, each)
    command = [sys.executable, "-m", "benchmarks.shared", "--application", *map(str, values)]
    path = os.pathsep.join(sys.path)
    root = Path(__file__).parents[1]
    return subprocess.Popen(command, cwd=root, env={**os.environ, "PYTHONPATH": path})


def _spent(folder: Path, limit: Spend) -> Spend:
    reader = budget_of(RagEvalConfig(**_budget(folder, limit)), LocalJudge(), None, Incidents())
    assert reader is not None
    return reader.spent()["day"]


def _read(folder: Path, report: Report) -> None:
    accepted: set[str] = set()
    for path in folder.glob("told-*.json"):
        written = json.loads(path.read_text())
        accepted |= set(written["told"])
        report.columns.update(written["columns"])
        report.undurable += written["undurable"]
    found: Counter[str] = Counter()
    for line in (folder / "results.jsonl").read_text().splitlines():
        result = json.loads(line)
        name = result["sample"]["sample_id"]
        found[name] += 1
        _count(report, name.split("-")[0], result["outcomes"])
    report.accepted, report.delivered = len(accepted), sum(found.values())
    report.missing = len(accepted - found.keys())
    report.twice = sum(count > 1 for count in found.values())
    config = RagEvalConfig(spool=str(folder / "spool"))
    with RagEval(judge="local", config=config, embedder="none") as reader:
        report.books = reader.spooled()


def _count(report: Report, process: str, outcomes: Mapping[str, Mapping[str, Any]]) -> None:
    for metric, outcome in outcomes.items():
        absent = outcome.get("not_scored")
        if absent != "sampled_out":
            report.chosen[metric] += 1
            report.by_process[metric, process] += 1
        report.refused += absent == "over_budget"


def _deviation(count: int, of: int, rate: float) -> float:
    return (count - of * rate) / math.sqrt(of * rate * (1 - rate))


def _print(report: Report, seconds: float) -> None:
    print(f"{report.processes} processes, {report.offered} samples offered, {seconds:.0f} s")
    print(
        f"\n{'metric':24}{'rate':>7}{'realised':>10}{'standard errors off':>21}{'by process':>18}"
    )
    for metric, rate in RATES.items():
        own = [count for (name, _), count in report.by_process.items() if name == metric]
        each = report.offered / report.processes
        spread = f"{min(own) / each:.3f} .. {max(own) / each:.3f}"
        realised, off = report.chosen[metric] / report.offered, report.deviation(metric)
        print(f"{metric:24}{rate:7.2f}{realised:10.4f}{off:+21.2f}{spread:>18}")
    print(f"\n{'budget':24}{'allowed':>10}{'spent':>10}{'seen by the judge':>19}")
    print(f"{'calls':24}{report.limit.calls:10.0f}{report.spent.calls:10.0f}{report.calls:19}")
    print(f"{'tokens':24}{report.limit.tokens:10.0f}{report.spent.tokens:10.0f}")
    print(f"largest call {report.largest} tokens; refused by the budget {report.refused}")
    print(f"\naccepted {report.accepted}, undurable {report.undurable}, ", end="")
    print(f"delivered {report.delivered}, ", end="")
    print(f"missing {report.missing}, twice {report.twice}")
    print(f"books {dict(report.columns)}\nspool {dict(report.books)}")


def main() -> int:
    """Runs the benchmark, or one application of it; gives the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--processes", type=int, default=8)
    parser.add_argument("--samples", type=int, default=300, help="of each process")
    parser.add_argument("--application", nargs=6, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.application:
        folder, url, calls, tokens, number, each = options.application
        limit = Spend(float(calls), float(tokens))
        application(Path(folder), url, limit, int(number), int(each))
        return 0
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        report = run(Path(folder), options.processes, options.samples)
    _print(report, time.monotonic() - began)
    findings = report.findings()
    for finding in findings:
        print(f"WRONG: {finding}")
    print("FAILED" if findings else "PASSED: all as it must be")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
