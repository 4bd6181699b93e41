"""The servers, worker pools and ends of the processes that applications run in, each real."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import textwrap
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.servers.otlp_collector import OtlpCollector
from tests.support.scripts import environment, run_script
from tests.support.size import each_once, size
from tests.waiting import PATIENCE, until

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this platform")

APP = """
import os, time
from rag_eval_hooks import RagEval, RagEvalConfig, Sample, setup_tracing
from tests.support.evaluation import faithful_judge

evals = RagEval(
    metrics=["ragas.faithfulness"],
    judge=faithful_judge(latency=0.3),
    sinks=["jsonl:results.jsonl"],
    # Long: on a busy machine a score may take its time, and is waited for all the same.
    config=RagEvalConfig(exit_timeout=60, hold_timeout=60),
)
collector = os.environ.get("COLLECTOR")
if collector:
    setup_tracing(endpoint=collector)

def answer():
    if collector:
        with evals.interaction(str(os.getpid())) as interaction:
            interaction.contexts(["c"])
            interaction.answer("a")
    else:
        evals.submit(Sample(question=str(os.getpid()), contexts=("c",), answer="a"))
    return str(os.getpid()).encode()
"""
SCORE = "rag.eval.ragas.faithfulness.score"
SERVES = """
def post_worker_init(worker):
    worker.log.info("serves now")
"""
LISTENING = r"(?:Listening at:|running on) http://127\.0\.0\.1:(\d+)"


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[OtlpCollector]:
    with OtlpCollector() as collector:
        monkeypatch.setenv("COLLECTOR", collector.url)
        yield collector


def scored_spans(collector: OtlpCollector) -> int:
    spans = [s for s in collector.received if s.name.startswith("invoke_workflow")]
    assert all(SCORE in {item.key for item in span.attributes} for span in spans)
    return len({span.span_id for span in spans})


def write(folder: Path, more: str) -> None:
    (folder / "app.py").write_text(APP + textwrap.dedent(more))


def serve(folder: Path, *arguments: str) -> subprocess.Popen[bytes]:
    with (folder / "stderr").open("ab") as errors:
        return subprocess.Popen(
            [sys.executable, "-W", "ignore", "-m", *arguments],
            cwd=folder,
            env=environment(),
            stdout=errors,
            stderr=errors,
        )


def port_of(folder: Path) -> int:
    told = folder / "stderr"
    until(lambda: re.search(LISTENING, told.read_text()), "the server's start")
    return int(re.findall(LISTENING, told.read_text())[-1])


def get(port: int) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=PATIENCE) as reply:
        return str(reply.read().decode())


def questions(folder: Path) -> list[str]:
    path = folder / "results.jsonl"
    if not path.exists():
        return []
    return [json.loads(line)["sample"]["question"] for line in path.read_text().splitlines()]


WSGI = """
def application(environ, start_response):
    start_response("200 OK", [("content-type", "text/plain")])
    return [answer()]
"""


@pytest.mark.parametrize(
    ("worker", "preload"),
    size([("sync", True)], each_once(("sync", "gthread", "gevent"), (True, False))),
)
def test_gunicorn_worker_evaluates_each_request_it_serves(
    tmp_path: Path, collector: OtlpCollector, worker: str, preload: bool
) -> None:
    pytest.importorskip("gunicorn")
    pytest.importorskip("gevent" if worker == "gevent" else "gunicorn")
    write(tmp_path, WSGI)
    (tmp_path / "gunicorn.conf.py").write_text(SERVES)
    options = ["--workers", "2", "--worker-class", worker, "--bind", "127.0.0.1:0"]
    options += ["--preload"] * preload + ["--timeout", "120", "--graceful-timeout", "120"]
    server = serve(tmp_path, "gunicorn", *options, "app:application")
    port = port_of(tmp_path)
    until(lambda: (tmp_path / "stderr").read_text().count("serves now") == 2, "both workers")
    with ThreadPoolExecutor(8) as clients:
        served = list(clients.map(get, [port] * 40))
    server.send_signal(signal.SIGTERM)
    assert server.wait(PATIENCE) == 0
    assert sorted(questions(tmp_path)) == sorted(served)
    assert str(server.pid) not in served
    assert scored_spans(collector) == len(served)


POOLS = """
import multiprocessing, sys
from concurrent.futures import ProcessPoolExecutor

def work(number):
    answer()

if __name__ == "__main__":
    context = multiprocessing.get_context(sys.argv[2])
    if sys.argv[1] == "process":
        answer()
        child = context.Process(target=work, args=(1,))
        child.start()
        child.join()
    elif sys.argv[1] == "pool":
        with context.Pool(2, maxtasksperchild=2) as pool:
            pool.map(work, range(6), chunksize=1)
            pool.close()
            pool.join()
    else:
        with ProcessPoolExecutor(2, mp_context=context) as pool:
            list(pool.map(work, range(6)))
"""


@pytest.mark.parametrize(
    ("kind", "method"),
    each_once(("process", "pool", "executor"), ("fork", "spawn", "forkserver")),
)
def test_children_of_multiprocessing_finish_their_samples(
    tmp_path: Path, kind: str, method: str
) -> None:
    write(tmp_path, POOLS)
    command = [sys.executable, "-W", "ignore", "app.py", kind, method]
    subprocess.run(command, cwd=tmp_path, env=environment(), check=True, timeout=PATIENCE)
    assert len(questions(tmp_path)) == (2 if kind == "process" else 6)


ENDS = [
    # Names can still be resolved at exit, and no signal handler is installed.
    """
    import asyncio, signal
    before = [signal.getsignal(n) for n in signal.valid_signals()]
    class Resolving(ScriptedJudge):
        async def make(self, *call):
            await asyncio.sleep(0.3)
            await asyncio.get_running_loop().getaddrinfo("localhost", 80)
            return await super().make(*call)
    evals = begin(Resolving(FAITHFUL), "jsonl:results.jsonl", exit_timeout=60)
    assert before == [signal.getsignal(n) for n in signal.valid_signals()]
    """,
    # A stuck judge delays the exit by no more than its limit.
    "begin(faithful_judge(latency=600), 'jsonl:none.jsonl', exit_timeout=0.5)",
    # A hanging sink does not keep the process.
    """
    reached = threading.Event()
    def hang(sample, outcomes):
        reached.set()
        time.sleep(600)
    begin(faithful_judge(), hang, exit_timeout=0.5)
    assert reached.wait(60)
    """,
]


@pytest.mark.parametrize("script", ENDS)
def test_process_ends_in_time(tmp_path: Path, script: str) -> None:
    prelude = """
import threading, time
from rag_eval_hooks import RagEval
from rag_eval_hooks.testing import ScriptedJudge
from tests.support.evaluation import FAITHFUL, faithful_judge, record_request

def begin(judge, sink, **config):
    evals = RagEval("ragas.faithfulness", judge, sinks=[sink], hold_timeout=60, **config)
    record_request(evals, "1")
    return evals
"""
    run_script(tmp_path, script, prelude=prelude)
    assert len(questions(tmp_path)) == (script is ENDS[0])


def test_the_first_evaluation_blocks_no_event_loop(tmp_path: Path) -> None:
    """Under blockbuster, which fails on calls that block a loop, all is scored."""
    pytest.importorskip("blockbuster")
    script = """
        import asyncio
        from blockbuster import blockbuster_ctx
        from rag_eval_hooks import RagEval, Sample

        evals = RagEval()
        sample = Sample(question="When?", contexts=["In 1921.", "At sea."], answer="In 1921.")

        async def request():
            with blockbuster_ctx():
                evals.submit(sample)
                await asyncio.to_thread(evals.flush, 60)

        asyncio.run(request())
        stats = evals.stats()
        print(stats.scored, dict(stats.incidents))
        """
    assert run_script(tmp_path, script) == "1 {}\n"
