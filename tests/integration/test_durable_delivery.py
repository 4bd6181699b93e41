"""With a spool, scores reach a platform though processes are killed and platforms are down."""

from __future__ import annotations

import logging
import os
import sqlite3
import subprocess
import sys
import textwrap
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rag_eval_hooks import Metric, RagEval, RagEvalConfig, Sample, Score
from rag_eval_hooks.config import limits
from rag_eval_hooks.delivery import outbox_file
from rag_eval_hooks.delivery.platforms.base import PlatformSink
from rag_eval_hooks.delivery.platforms.langfuse import LangfuseSink
from rag_eval_hooks.delivery.platforms.mlflow import MlflowSink
from rag_eval_hooks.delivery.platforms.phoenix import PhoenixSink
from rag_eval_hooks.testing import MemorySink
from tests.servers.platform_server import Answer, PlatformServer, Request
from tests.support.limits import small_limits
from tests.waiting import PATIENCE, until

METRIC = "lexical.source_citation"
SINKS: dict[str, Callable[[str], PlatformSink]] = {
    "phoenix": lambda url: PhoenixSink(url, api_key="sk-secret"),
    "mlflow": lambda url: MlflowSink(url, token="sk-secret"),
    "langfuse": lambda url: LangfuseSink(url, public_key="pk", secret_key="sk-secret"),
}
Make = Callable[..., RagEval]
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX file locks")


def sample(number: int, **fields: Any) -> Sample:
    base = {"question": "q", "answer": "see page 1", "sample_id": f"s{number}"}
    ids = {"trace_id": f"{number + 1:032x}", "span_id": f"{number + 1:016x}"}
    return Sample(**(base | ids | fields))


class Platform:
    """A platform that can be down, and keeps what it took as the real ones do: by its key."""

    def __init__(self) -> None:
        self.status: int | None = None
        self.taken: Counter[str] = Counter()
        self.kept: dict[str, float] = {}
        self.server = PlatformServer(self._answer)
        self.url = self.server.url

    def _answer(self, request: Request) -> Answer:
        if self.status is not None:
            return Answer(self.status, {"error": "down"})
        if request.path.startswith("/v1/span_annotations"):
            for one in request.body["data"]:
                key = f"{one['span_id']} {one['name']} {one['identifier']}"
                self._take(key, one["result"]["score"])
            return Answer(body={"data": []})
        if request.path.startswith("/api/public/scores"):
            for one in request.body:
                self._take(one["id"], one["value"])
            return Answer(202, {"message": "Accepted"})
        trace = request.path.split("/traces/")[1].split("/")[0]
        if request.method == "GET":
            return Answer(body={"trace": {"trace_info": {"assessments": self._assessed(trace)}}})
        told = request.body["assessment"]
        self._take(f"{trace}/{told['assessment_name']}", told["feedback"]["value"])
        return Answer(body={"assessment": {"assessment_id": "as"}})

    def _assessed(self, trace: str) -> list[dict[str, Any]]:
        return [
            {
                "assessment_name": key.split("/")[1],
                "assessment_id": key.split("/")[1],
                "source": {"source_id": "rag_eval_hooks"},
                "metadata": {"rag_eval.span_id": trace[-16:]},
            }
            for key in self.kept
            if key.startswith(f"{trace}/")
        ]

    def _take(self, key: str, value: float) -> None:
        self.taken[key] += 1
        self.kept[key] = value


@pytest.fixture
def platform() -> Iterator[Platform]:
    one = Platform()
    with one.server:
        yield one


@pytest.fixture(autouse=True)
def short_leases(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes of this one take leases of more than a second for expired ones."""
    monkeypatch.setattr(outbox_file, "LEASE_S", 1.0)


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    made: list[RagEval] = []

    def build(sinks: Any, metrics: Any = METRIC, **config: Any) -> RagEval:
        config = {"spool": str(tmp_path / "spool"), "SINK_SECONDS": 60.0, **config}
        with small_limits(config):
            made.append(RagEval(metrics, sinks=sinks, config=RagEvalConfig(**config)))
        return made[-1]

    yield build
    for evals in made:
        evals.shutdown(0.1)


def killed(folder: Path, script: str) -> None:
    """Runs a script in a process of its own that ends by `kill -9`."""
    prelude = """
    import os, signal, time
    from tests.integration.test_durable_delivery import METRIC, SINKS, sample
    from rag_eval_hooks import RagEval, RagEvalConfig

    def begin(sinks, **config):
        config = {"spool": "spool"} | config
        evals = RagEval(METRIC, sinks=sinks, config=RagEvalConfig(**config))
        for n in range(5):
            evals.offer(sample(n))
        while evals.spooled().get("scored") != 5:
            time.sleep(0.01)
        return evals
    """
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(prelude) + textwrap.dedent(script)],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([os.getcwd(), *sys.path])},
    )
    assert done.returncode == -9, done.stderr


def test_scores_wait_for_a_file_that_is_locked(
    make: Make, platform: Platform, tmp_path: Path
) -> None:
    """A lock of another program costs no score that is on disk, and delays no new one for long."""
    platform.status = 503
    evals = make(SINKS["phoenix"](platform.url))
    evals.offer(sample(1))
    until(lambda: evals.spooled().get("undelivered") == 1)
    (path,) = (tmp_path / "spool").glob("*.sqlite")
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("BEGIN EXCLUSIVE")
        evals.offer(sample(2))
        until(lambda: evals.stats().scored == 2)
        until(lambda: "spool: OperationalError" in evals.stats().incidents)
        db.execute("ROLLBACK")
    platform.status = None
    until(lambda: len(platform.taken) == 2 and "undelivered" not in evals.spooled())
    assert set(platform.taken.values()) == {1}


@pytest.mark.parametrize("kind", SINKS)
@pytest.mark.parametrize("status", [503, 429])
def test_scores_outlive_their_process(
    kind: str, status: int, make: Make, platform: Platform, tmp_path: Path
) -> None:
    """Scores that no platform had taken when the process was killed are delivered later, once."""
    platform.status = status
    killed(
        tmp_path,
        f"""
        evals = begin(SINKS["{kind}"]("{platform.url}"))
        os.kill(os.getpid(), signal.SIGKILL)
        """,
    )
    assert platform.kept == {}
    platform.status = None
    memory = MemorySink()
    evals = make([SINKS[kind](platform.url), memory])
    assert evals.spooled()["undelivered"] == 5
    until(lambda: "undelivered" not in evals.spooled())
    assert len(platform.taken) == 5
    assert set(platform.taken.values()) == {1}
    # Their samples were settled by the process that scored them.
    assert memory.results == []
    assert evals.stats().offered == 0


def test_a_kill_during_the_request_repeats_it(
    make: Make, platform: Platform, tmp_path: Path
) -> None:
    """Scores that the platform took without an acknowledgement are sent again and stand once."""
    script = f"""
    evals = begin(SINKS["phoenix"]("{platform.url}"))
    while not os.path.exists("taken"):
        time.sleep(0.01)
    os.kill(os.getpid(), signal.SIGKILL)
    """
    well = platform.server.answer

    def slow(request: Request) -> Answer:
        answer = well(request)
        (tmp_path / "taken").touch()
        return replace(answer, after=2.0)

    platform.server.answer = slow
    killed(tmp_path, script)
    repeated = len(platform.kept)
    assert repeated > 0
    platform.server.answer = well
    evals = make(SINKS["phoenix"](platform.url))
    until(lambda: "undelivered" not in evals.spooled())
    assert len(platform.kept) == 5
    assert sorted(platform.taken.values()) == [1] * (5 - repeated) + [2] * repeated


@pytest.mark.long
def test_kills_at_any_moment_lose_and_double_nothing(
    make: Make, platform: Platform, tmp_path: Path
) -> None:
    """Killed while it scores and sends, again and again: every accepted sample is there once."""
    script = """
    import random
    evals = RagEval(METRIC, sinks=SINKS["langfuse"]("{url}"),
                    config=RagEvalConfig(spool="spool"))
    end = time.monotonic() + random.Random({seed}).uniform(0.05, 0.5)
    log = os.open("told", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    number = {seed} * 100000
    while time.monotonic() < end:
        number += 1
        if evals.offer(sample(number)):
            os.write(log, b"1")
    os.kill(os.getpid(), signal.SIGKILL)
    """
    for seed in range(1, 5):
        killed(tmp_path, script.format(url=platform.url, seed=seed))
    evals = make(SINKS["langfuse"](platform.url))
    until(lambda: evals.spooled()["pending"] == 0 and "undelivered" not in evals.spooled())
    accepted = evals.spooled()["accepted"]
    # A killed process may lose what it accepted in its last moment.
    assert len((tmp_path / "told").read_bytes()) > 0
    assert len(platform.kept) == accepted


def test_a_platform_that_comes_back_gets_all(make: Make, platform: Platform) -> None:
    """Scores that a platform did not take wait in the spool, not in memory, until it takes them."""
    platform.status = 503
    sink = SINKS["langfuse"](platform.url)
    evals = make(sink, SINK_RETRY_SECONDS=0.2)
    for number in range(40):
        evals.offer(sample(number))
    assert evals.flush(PATIENCE)
    books = sink.books()
    assert books["lost"] == 0
    assert books["taken"] == books["spooled"] + books["waiting"]
    assert evals.stats().scored == 40
    platform.status = None
    until(lambda: "undelivered" not in evals.spooled())
    assert len(platform.taken) == 40
    assert set(platform.taken.values()) == {1}


def test_a_dead_platform_stops_nobody_else(make: Make, platform: Platform) -> None:
    """Other sinks get everything, and samples are scored and leave the books, as ever."""
    with PlatformServer(lambda _: Answer(503)) as down:
        dead, memory = SINKS["phoenix"](down.url), MemorySink()
        evals = make([dead, SINKS["mlflow"](platform.url), memory], SINK_RETRY_SECONDS=0.2)
        for number in range(20):
            evals.offer(sample(number))
        assert evals.flush(PATIENCE)
        assert len(platform.kept) == len(memory.results) == 20
        assert evals.spooled()["scored"] == 20
        assert evals.spooled()["undelivered"] == 20
        assert dead.books()["lost"] == 0


def test_a_shutdown_leaves_scores_for_the_next(make: Make, platform: Platform) -> None:
    """A process that ends in good order while the platform is down loses nothing either."""
    platform.status = 503
    sink = SINKS["phoenix"](platform.url)
    first = make(sink)
    for number in range(5):
        first.offer(sample(number))
    until(lambda: first.stats().scored == 5)
    first.shutdown(0.5)
    assert sink.books() == {
        "taken": 5, "sent": 0, "lost": 0, "spooled": 5, "waiting": 0, "no_span": 0,
    }  # fmt: skip
    platform.status = None
    second = make(SINKS["phoenix"](platform.url))
    until(lambda: "undelivered" not in second.spooled())
    assert set(platform.taken.values()) == {1}
    assert len(platform.taken) == 5


def test_a_sample_without_a_span_is_counted_once(
    make: Make, platform: Platform, tmp_path: Path
) -> None:
    """A sample without a span is counted once a sink, also while its row cannot be written."""
    sink = SINKS["phoenix"](platform.url)
    evals = make(sink)
    evals.offer(sample(0))
    assert evals.flush(PATIENCE)
    (file,) = (tmp_path / "spool").glob("*.sqlite")
    with closing(sqlite3.connect(file, isolation_level=None)) as holder:
        holder.execute("BEGIN EXCLUSIVE")
        evals.offer(sample(1, trace_id=None, span_id=None))
        assert evals.flush(300)
    assert sink.books()["no_span"] == 1


def test_scores_go_to_the_address_they_were_made_for(make: Make, platform: Platform) -> None:
    """Another project's platform does not get them, though it shares the spool."""
    with PlatformServer(lambda _: Answer(503)) as down:
        first = make(SINKS["phoenix"](down.url), SINK_RETRY_SECONDS=0.2)
        first.offer(sample(1))
        assert first.flush(PATIENCE)
        first.shutdown(0.5)
    second = make(SINKS["phoenix"](platform.url))
    second.offer(sample(2))
    assert second.flush(PATIENCE)
    # Long enough for several looks at what others left behind.
    time.sleep(2.5)
    assert {key.split()[0] for key in platform.kept} == {f"{3:016x}"}
    assert second.spooled()["undelivered"] == 1


def test_what_waits_too_long_is_lost_and_counted(
    make: Make,
    platform: Platform,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Beyond its time it leaves the spool: counted, with one line in the log."""
    platform.status = 503
    monkeypatch.setattr(limits, "SINK_KEEP_SECONDS", 0.1)
    with caplog.at_level(logging.WARNING, "rag_eval_hooks"):
        evals = make(SINKS["phoenix"](platform.url), SINK_RETRY_SECONDS=0.1)
        for number in range(8):
            evals.offer(sample(number))
        until(lambda: evals.spooled().get("scored") == 8 and "undelivered" not in evals.spooled())
        until(lambda: _lost(evals) == 8)
    told = [r.getMessage() for r in caplog.records if "kept too long" in r.getMessage()]
    assert len(told) == 1


def test_results_for_sinks_of_other_settings_stop_no_recovery(
    make: Make, platform: Platform, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Samples are recovered beside results for sinks of other settings, which wait for these."""
    platform.status = 503
    for number in range(9):
        evals = make(SINKS["phoenix"](f"{platform.url}/{number}"), SINK_RETRY_SECONDS=0.1)
        evals.offer(sample(number))
        assert evals.flush(PATIENCE)
        evals.shutdown(0.1)
    until(lambda: evals.spooled().get("undelivered") == 9)
    killed(
        tmp_path,
        """
        from rag_eval_hooks.testing import ScriptedJudge
        evals = RagEval("ragas.faithfulness", ScriptedJudge(latency=600), config=RagEvalConfig(
            spool="spool"))
        evals.offer(sample(9999, contexts=("c",)))
        while evals.spooled().get("pending") != 1:
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGKILL)
        """,
    )
    second = make([])
    until(lambda: second.stats().recovered == 1)
    until(lambda: second.spooled()["pending"] == 0)
    assert second.spooled()["undelivered"] == 9
    second.shutdown(1)
    monkeypatch.setattr(limits, "SINK_KEEP_SECONDS", 0.0)
    third = make([])
    third.offer(sample(1))
    until(lambda: "undelivered" not in third.spooled())
    assert third.stats().incidents["spool, sink of other settings: Lost"] == 9


def _lost(evals: RagEval) -> int:
    counts = evals.stats().incidents
    return sum(count for kind, count in counts.items() if "kept too long: Lost" in kind)


def test_what_waits_is_bounded(
    make: Make, platform: Platform, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file has a limit, for results too; more waits in memory alone, then it is lost."""
    platform.status = 503
    long = Metric(
        id="own.long",
        score=lambda *_: Score(value=1.0, normalised=1.0, explanation={"why": "x" * 50_000}),
        needs=frozenset(),
    )
    sink = SINKS["langfuse"](platform.url)
    monkeypatch.setattr(limits, "EXPLANATION_CHARS", 60_000)
    evals = make(sink, [long], SPOOL_BYTES=1_000_000, SINK_RETRY_SECONDS=0.2, capture_content=True)
    for number in range(40):
        evals.offer(sample(number))
    assert evals.flush(300)
    until(lambda: sink.books()["waiting"] == evals.spooled()["undelivered"])
    assert 10 <= evals.spooled()["undelivered"] <= 20
    assert sink.books()["lost"] >= 20
    assert evals.stats().scored == 40
    (path,) = (tmp_path / "spool").glob("*.sqlite")
    assert path.stat().st_size < 1_100_000
    platform.status = None
    until(lambda: "undelivered" not in evals.spooled())


def test_no_key_stands_in_the_spool(make: Make, platform: Platform, tmp_path: Path) -> None:
    """A spool's file holds neither a platform's key nor credentials of its address."""
    platform.status = 401
    address = platform.url.replace("http://", "http://user:sk-secret@")
    sinks = [sink(platform.url) for sink in SINKS.values()] + [PhoenixSink(address)]
    evals = make(sinks)
    evals.offer(sample(1))
    evals.flush(2)
    platform.status = 503
    evals.offer(sample(2))

    def written() -> bytes:
        paths = (tmp_path / "spool").iterdir()
        return b"".join(path.read_bytes() for path in paths if path.is_file())

    until(lambda: b"s2" in written())
    assert b"sk-secret" not in written()
