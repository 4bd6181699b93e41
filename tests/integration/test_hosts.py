"""The servers and worker pools that applications run in, each the real one."""

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
from tests.support.scripts import environment
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


def write(folder: Path, more: str = "", name: str = "app.py") -> None:
    (folder / name).write_text(APP + textwrap.dedent(more))


def run(
    folder: Path, *arguments: str, check: bool = True, timeout: float = PATIENCE
) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", *arguments],
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    assert not check or done.returncode == 0, done.stderr
    return done


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


ASGI = """
import asyncio
async def app(scope, receive, send):
    if scope["type"] == "lifespan":
        await receive()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await asyncio.to_thread(evals.shutdown, 60)
        await send({"type": "lifespan.shutdown.complete"})
        return
    body = answer()
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": body})
"""


@pytest.mark.parametrize(
    ("loop", "number"), each_once(("asyncio", "uvloop"), (signal.SIGTERM, signal.SIGINT))
)
def test_uvicorn_with_a_lifespan(
    tmp_path: Path, collector: OtlpCollector, number: signal.Signals, loop: str
) -> None:
    pytest.importorskip(loop)
    write(tmp_path, ASGI)
    server = serve(tmp_path, "uvicorn", "--port", "0", "--loop", loop, "app:app")
    port = port_of(tmp_path)
    served = [get(port) for _ in range(6)]
    server.send_signal(number)
    server.wait(PATIENCE)
    assert questions(tmp_path) == served
    assert scored_spans(collector) == len(served)


def test_no_signal_handler_is_installed(tmp_path: Path) -> None:
    write(
        tmp_path,
        """
        import signal
        before = [signal.getsignal(n) for n in signal.valid_signals()]
        answer()
        evals.flush(300)
        assert before == [signal.getsignal(n) for n in signal.valid_signals()]
        """,
    )
    run(tmp_path, "app.py")


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
    run(tmp_path, "app.py", kind, method)
    assert len(questions(tmp_path)) == (2 if kind == "process" else 6)
