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
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.support.scripts import environment, run_script
from tests.support.servers.otlp_collector import OtlpCollector
from tests.support.size import each_once, size
from tests.waiting import PATIENCE, until

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this platform")

APP = """
import os
from rag_eval_hooks import RagEval, setup_tracing
from tests.support.evaluation import faithful_judge

# Long: on a busy machine a score may take its time, and is waited for all the same.
evals = RagEval("ragas.faithfulness", faithful_judge(latency=0.3), sinks=["jsonl:results.jsonl"],
                exit_timeout=60, hold_timeout=60)
if collector := os.environ.get("COLLECTOR"):
    setup_tracing(endpoint=collector)

def answer():
    with evals.interaction(str(os.getpid()), name="help") as interaction:
        interaction.contexts(["c"])
        interaction.answer("a")
    return str(os.getpid()).encode()
"""
SCORE = "rag.eval.ragas.faithfulness.score"


def write(folder: Path, more: str) -> None:
    (folder / "app.py").write_text(APP + textwrap.dedent(more))


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
CONFIG = """
bind, workers, timeout, graceful_timeout = "127.0.0.1:0", 2, 120, 120
worker_class, preload_app = "{}", {}
def post_worker_init(worker):
    worker.log.info("serves now")
"""


@pytest.mark.parametrize(
    ("worker", "preload"),
    size([("sync", True)], each_once(("sync", "gthread", "gevent"), (True, False))),
)
def test_gunicorn_worker_evaluates_each_request_it_serves(
    tmp_path: Path, worker: str, preload: bool
) -> None:
    pytest.importorskip("gunicorn")
    pytest.importorskip("gevent" if worker == "gevent" else "gunicorn")
    write(tmp_path, WSGI)
    (tmp_path / "gunicorn.conf.py").write_text(CONFIG.format(worker, preload))
    log = tmp_path / "stderr"
    command = [sys.executable, "-W", "ignore", "-m", "gunicorn", "app:application"]
    with OtlpCollector() as collector, log.open("ab") as errors:
        variables = environment(COLLECTOR=collector.url)
        server = subprocess.Popen(command, cwd=tmp_path, env=variables, stderr=errors)
        until(lambda: log.read_text().count("serves now") == 2, "both workers")
        (address,) = re.findall(r"Listening at: (http://127\.0\.0\.1:\d+)", log.read_text())

        def get(_: int) -> str:
            with urllib.request.urlopen(address, timeout=PATIENCE) as reply:
                return str(reply.read().decode())

        with ThreadPoolExecutor(8) as clients:
            served = list(clients.map(get, range(40)))
        server.send_signal(signal.SIGTERM)
        assert server.wait(PATIENCE) == 0
        spans = [s for s in collector.received if s.name.startswith("invoke_workflow")]
    assert sorted(questions(tmp_path)) == sorted(served)
    assert str(server.pid) not in served
    assert all(SCORE in {item.key for item in span.attributes} for span in spans)
    assert len({span.span_id for span in spans}) == len(served)


def test_a_receiver_gets_spans_metrics_and_events_at_exit(tmp_path: Path) -> None:
    script = """
    answer()
    from opentelemetry import trace
    before = trace.get_tracer_provider()
    try:
        setup_tracing(console=True)
    except RuntimeError as error:
        print(error, trace.get_tracer_provider() is before)
    """
    with OtlpCollector() as receiver:
        told = run_script(tmp_path, script, prelude=APP, COLLECTOR=receiver.url)
        assert set(receiver.paths) == {"/v1/traces", "/v1/metrics", "/v1/logs"}
    assert "already set" in told
    assert told.endswith("True\n")
    assert "rag.eval.score" in receiver.metrics
    assert [record.event_name for record in receiver.log_records] == ["gen_ai.evaluation.result"]
    (rag,) = [span for span in receiver.received if span.name == "invoke_workflow help"]
    assert {a.key: a.value for a in rag.attributes}[SCORE].double_value == 1.0


def test_a_receiver_of_spans_alone_is_no_error_and_a_variable_names_the_service(
    tmp_path: Path,
) -> None:
    script = """
    import logging, sys
    logging.basicConfig(stream=sys.stdout)
    answer()
    """
    with OtlpCollector(only="/v1/traces") as receiver:
        told: Any = {"COLLECTOR": f"{receiver.url}/v1/traces", "OTEL_SERVICE_NAME": "shop"}
        assert run_script(tmp_path, script, prelude=APP, **told) == ""
        assert set(receiver.paths) == {"/v1/traces", "/v1/metrics", "/v1/logs"}
    assert receiver.services == {"shop"}


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
        with context.Pool(1, maxtasksperchild=2) as pool:
            pool.map(work, range(3), chunksize=1)
            pool.close()
            pool.join()
    else:
        with ProcessPoolExecutor(2, mp_context=context) as pool:
            list(pool.map(work, range(3)))
"""


@pytest.mark.parametrize(
    ("kind", "method"), each_once(("process", "pool", "executor"), ("fork", "spawn", "forkserver"))
)
def test_children_of_multiprocessing_finish_their_samples(
    tmp_path: Path, kind: str, method: str
) -> None:
    write(tmp_path, POOLS)
    command = [sys.executable, "-W", "ignore", "app.py", kind, method]
    subprocess.run(command, cwd=tmp_path, env=environment(), check=True, timeout=PATIENCE)
    assert len(questions(tmp_path)) == (2 if kind == "process" else 3)


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
    # Neither a stuck judge nor a hanging sink keeps the process beyond its limit.
    """
    begin(faithful_judge(latency=600), 'jsonl:none.jsonl', exit_timeout=0.5)
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


def test_scores_that_nobody_receives_are_warned_of_once(tmp_path: Path) -> None:
    script = """
    import logging, sys
    from rag_eval_hooks import RagEval
    logging.basicConfig(stream=sys.stdout)
    for given in ({"sinks": []}, {}):
        print("---")
        with RagEval(lambda sample: 0.5, **given) as evals:
            for _ in range(3):
                evals.submit(question="q", contexts=["c"], answer="a")
            evals.flush(60)
    """
    told = [
        part.count("no sink and no tracer") for part in run_script(tmp_path, script).split("---")
    ]
    assert told == [0, 0, 1]


def test_an_own_metric_runs_at_exit_and_a_hanging_one_is_told(tmp_path: Path) -> None:
    script = """
    import logging, sys, time
    from rag_eval_hooks import RagEval
    logging.basicConfig(stream=sys.stdout)
    def own(sample):
        time.sleep(int(sample.question))
        return 1.0
    for seconds, timeout in (("0", 60), ("600", 0.5)):
        evals = RagEval(own, sinks=["jsonl:results.jsonl"], exit_timeout=timeout)
        evals.submit(question=seconds, contexts=["c"], answer="a")
    """
    told = run_script(tmp_path, script)
    assert told.count("shutdown dropped requests") == 1
    assert "metric own.own" not in told
    assert questions(tmp_path) == ["0"]
