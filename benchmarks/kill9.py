"""Kill processes at random moments. Count accepted samples that are scored, lost or scored twice.

    python -m benchmarks.kill9 [--kills 100] [--processes 3] [--platform-ms 50] [--json FILE]

Several application processes share a spool, a JSONL file, a platform and a judge server on
loopback. The benchmark repeatedly kills one process with `kill -9` and restarts the process. At the
end, one process scores the remaining samples. Then the benchmark compares the results file with the
samples that each application logged as accepted. A killed process may lose the samples of its last
50 ms, or of a few hundred milliseconds on an overloaded machine.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.table import parser_of, written
from rag_eval_hooks import RagEval, RagEvalConfig, Sample
from rag_eval_hooks.delivery.outbox_file import NAME
from rag_eval_hooks.judges.openai import OpenAIJudge
from rag_eval_hooks.score import Outcomes
from tests.support.servers.judge_server import JudgeServer
from tests.support.servers.platform_server import Answer, PlatformServer

_RATE_S = 0.01
# Maximum number of waiting samples per application. A busy machine scores few samples.
_BACKLOG = 200


def application(folder: Path, url: str, platform: str, name: str, drain: bool) -> None:
    log = os.open(folder / "told", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    calls = os.open(folder / "calls", os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def call(sample: Sample, _outcomes: Outcomes) -> None:
        os.write(calls, f"{sample.sample_id}\n".encode())

    evals = RagEval(
        metrics=["ragas.faithfulness"],
        judge=OpenAIJudge("m", base_url=url, api_key="k"),
        sinks=[f"jsonl:{folder / 'results.jsonl'}", call, f"phoenix:{platform}"],
        config=RagEvalConfig(spool=str(folder / "spool"), queue_size=100_000),
        embedder="none",
    )
    if drain:
        while (books := evals.spooled()).get("pending") or books.get("undelivered"):
            time.sleep(0.1)
        evals.shutdown(10)
        return
    number = 0
    while True:
        number += 1
        sample_id = f"{name}-{number}"
        texts = {"question": f"When was quay {sample_id} opened?", "answer": "It opened in 1931."}
        ids = {
            "sample_id": sample_id,
            "trace_id": os.urandom(16).hex(),
            "span_id": f"{number:016x}",
        }
        contexts = ["The quay opened in 1931. It has two berths."]
        sample = Sample.from_dict({**texts, **ids, "contexts": contexts})
        if evals.stats().pending < _BACKLOG and evals.submit(sample):
            os.write(log, f"{sample_id} {name} {time.time()}\n".encode())
        time.sleep(_RATE_S)


def run(
    folder: Path, kills: int, seed: int, processes: int, platform_latency: float
) -> dict[str, Any]:
    chance = random.Random(seed)
    killed: dict[str, float] = {}
    stored: set[str] = set()
    platform = PlatformServer(lambda _: Answer(body={"data": []}, after=platform_latency))
    with JudgeServer(latency=0.03) as server, platform:
        apps: dict[str, subprocess.Popen[bytes]] = {}

        def start() -> None:
            name = f"p{len(killed) + len(apps)}"
            apps[name] = _start(folder, server.url, platform.url, name)
            _wait_for(folder, name, apps[name])

        try:
            for _ in range(processes):
                start()
            for _ in range(kills):
                name = chance.choice(sorted(apps))
                stored.update(_stored(folder, name))
                time.sleep(chance.uniform(0.05, 0.8))
                killed[name] = time.time()
                _kill(apps.pop(name))
                start()
        finally:
            for name, app in apps.items():
                killed[name] = time.time()
                _kill(app)
        last = _start(folder, server.url, platform.url, "last", "--drain")
        if last.wait(3600):
            raise RuntimeError("the last process failed")
    compared = _compare(folder, killed, stored)
    return {"kills": kills, **compared, "posted": len(platform.requests)}


def _start(folder: Path, url: str, platform: str, name: str, *more: str) -> subprocess.Popen[bytes]:
    arguments = ["--app", str(folder), "--url", url, "--platform", platform, "--name", name]
    return subprocess.Popen([sys.executable, __file__, *arguments, *more])


def _wait_for(folder: Path, name: str, app: subprocess.Popen[bytes]) -> None:
    # Wait for the first accepted sample, because the application cannot lose samples before.
    told = folder / "told"
    while not (told.exists() and f" {name} " in told.read_text()):
        if app.poll() is not None:
            raise RuntimeError("the application failed")
        time.sleep(0.02)


def _stored(folder: Path, name: str) -> list[str]:
    seen = [line.split()[0] for line in (folder / "told").read_text().splitlines()]
    own = [sample_id for sample_id in seen if sample_id.startswith(f"{name}-")]
    results = folder / "results.jsonl"
    # Read the results file after the spool, because the spool deletes the rows of stored results.
    while not _is_on_disk(folder / "spool" / NAME, own[-1]):
        if results.exists() and f'"{own[-1]}"' in results.read_text():
            break
        time.sleep(0.02)
    return own


def _is_on_disk(spool: Path, sample_id: str) -> bool:
    sql = "SELECT 1 FROM jobs WHERE json_extract(payload, '$.sample.sample_id') = ?"
    # On a busy machine, an application may accept samples before the spool's table exists.
    with suppress(sqlite3.OperationalError), closing(sqlite3.connect(spool)) as db:
        return db.execute(sql, (sample_id,)).fetchone() is not None
    return False


def _kill(app: subprocess.Popen[bytes]) -> None:
    app.kill()
    app.wait()


def _compare(folder: Path, killed: Mapping[str, float], stored: AbstractSet[str]) -> dict[str, Any]:
    # `lost_stored` counts lost samples that were on disk, or that are older than a sample on disk.
    # `broken` counts incomplete lines of killed processes. `results.read` drops `repeated` lines.
    told = [line.split() for line in (folder / "told").read_text().splitlines()]
    found: dict[str, set[str]] = {}
    texts = (folder / "results.jsonl").read_text().splitlines()
    broken = 0
    for text in texts:
        try:
            line = json.loads(text)
        except ValueError:
            broken += 1
        else:
            found.setdefault(line["sample"]["sample_id"], set()).add(line["result_id"])
    ages = [killed[name] - float(at) for sample_id, name, at in told if sample_id not in found]
    config = RagEvalConfig(spool=str(folder / "spool"))
    with RagEval(judge="heuristic", config=config, embedder="none") as evals:
        books = evals.spooled()
    results = sum(map(len, found.values()))
    row = {"seen": len(told), "lost": len(ages), "oldest_lost": max(ages, default=0.0)}
    row |= {"lost_late": sum(age > 0.1 for age in ages), "lost_50": sum(age > 0.05 for age in ages)}
    row |= {"lost_stored": len(stored - found.keys()), "delivered": results, "broken": broken}
    row["repeated"] = len(texts) - broken - results
    row["twice"] = results - len(found)
    row["at_least_once"] = len((folder / "calls").read_text().splitlines())
    return {**row, "books": dict(books)}


def main() -> None:
    parser = parser_of(__doc__)
    for name, default in (("--kills", 100), ("--processes", 3), ("--seed", 1)):
        parser.add_argument(name, type=int, default=default)
    parser.add_argument("--platform-ms", type=float, default=50.0)
    for hidden in ("--app", "--url", "--platform", "--name"):
        parser.add_argument(hidden, help=argparse.SUPPRESS)
    parser.add_argument("--drain", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.app:
        application(Path(options.app), options.url, options.platform, options.name, options.drain)
        return
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        latency = options.platform_ms / 1000
        row = run(Path(folder), options.kills, options.seed, options.processes, latency)
    books = row.pop("books")
    took = {"load": os.getloadavg()[0], "seconds": time.monotonic() - began}
    written([took | row], options.json)
    print(f"samples that wait in the spool: {books}")


if __name__ == "__main__":
    main()
