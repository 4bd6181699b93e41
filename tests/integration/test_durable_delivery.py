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
from rag_eval_hooks.delivery.platforms.langfuse import LangfuseSink
from rag_eval_hooks.delivery.platforms.mlflow import MlflowSink
from rag_eval_hooks.delivery.platforms.phoenix import PhoenixSink
from rag_eval_hooks.delivery.platforms.platform import PlatformSink
from rag_eval_hooks.testing import MemorySink
from tests.servers.platform_server import Answer, PlatformServer, Request
from tests.waiting import until

METRIC = "lexical.source_citation"
SINKS: dict[str, Callable[[str], PlatformSink]] = {
    "phoenix": lambda url: PhoenixSink(url, api_key="sk-secret"),
    "mlflow": lambda url: MlflowSink(url, token="sk-secret"),
    "langfuse": lambda url: LangfuseSink(url, public_key="pk", secret_key="sk-secret"),
}
Make = Callable[..., RagEval]
pytestmark = pytest.mark.skip(reason="needs the spool with one row for every sink")


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


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    made: list[RagEval] = []

    def build(sinks: Any, metrics: Any = METRIC, **config: Any) -> RagEval:
        defaults: dict[str, Any] = {"spool": str(tmp_path / "spool.sqlite"), "sink_timeout": 0.5}
        made.append(RagEval(metrics, sinks=sinks, config=RagEvalConfig(**defaults | config)))
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
        config = {"spool": "spool.sqlite"} | config
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
    """A lock of another program costs no score its place on the disk, taken or left."""
    platform.status = 503
    evals = make(SINKS["phoenix"](platform.url))
    evals.offer(sample(1))
    until(lambda: evals.spooled().get("undelivered") == 1)
    with closing(sqlite3.connect(tmp_path / "spool.sqlite", isolation_level=None)) as db:
        db.execute("BEGIN EXCLUSIVE")
        evals.offer(sample(2))
        until(lambda: evals.stats().scored == 2)
        until(lambda: "spool: OperationalError" in evals.stats().incidents)
        db.execute("ROLLBACK")
    until(lambda: evals.spooled().get("undelivered") == 2)
    evals.shutdown(0.1)
    platform.status = None
    evals = make(SINKS["phoenix"](platform.url))
    evals.offer(sample(3))
    until(lambda: len(platform.taken) == 3)
    assert set(platform.taken.values()) == {1}


@pytest.mark.parametrize("kind", SINKS)
@pytest.mark.parametrize("status", [503, 429])
def test_scores_outlive_their_process(
    kind: str, status: int, make: Make, platform: Platform, tmp_path: Path
) -> None:
    """What was scored and not yet taken when the process was killed is delivered later, once."""
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
    """What the platform took and could not acknowledge is sent again, and stands there once."""
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
    assert len(platform.kept) == 1
    platform.server.answer = well
    evals = make(SINKS["phoenix"](platform.url))
    until(lambda: "undelivered" not in evals.spooled())
    assert len(platform.kept) == 5
    assert sorted(platform.taken.values()) == [1, 1, 1, 1, 2]


@pytest.mark.long
def test_kills_at_any_moment_lose_and_double_nothing(
    make: Make, platform: Platform, tmp_path: Path
) -> None:
    """Killed while it scores and sends, again and again: every accepted sample is there once."""
    script = """
    import random
    evals = RagEval(METRIC, sinks=SINKS["langfuse"]("{url}"),
                    config=RagEvalConfig(spool="spool.sqlite", durability="sync", spool_wait=10.0))
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
    assert accepted >= len((tmp_path / "told").read_bytes()) > 0
    assert len(platform.kept) == accepted


def test_a_platform_that_comes_back_gets_all(make: Make, platform: Platform) -> None:
    """What it did not take in time waits in the spool, not in memory, and is sent once it can."""
    platform.status = 503
    sink = SINKS["langfuse"](platform.url)
    evals = make(sink, sink_retry_for=0.2)
    for number in range(40):
        evals.offer(sample(number))
    assert evals.flush(20)
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
        evals = make([dead, SINKS["mlflow"](platform.url), memory], sink_retry_for=0.2)
        for number in range(20):
            evals.offer(sample(number))
        assert evals.flush(20)
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
    assert not first.shutdown(0.5)
    assert sink.books() == {
        "taken": 5, "sent": 0, "lost": 0, "spooled": 5, "waiting": 0, "no_span": 0,
    }  # fmt: skip
    platform.status = None
    second = make(SINKS["phoenix"](platform.url))
    until(lambda: "undelivered" not in second.spooled())
    assert set(platform.taken.values()) == {1}
    assert len(platform.taken) == 5


def test_scores_go_to_the_address_they_were_made_for(make: Make, platform: Platform) -> None:
    """Another project's platform does not get them, though it shares the spool."""
    with PlatformServer(lambda _: Answer(503)) as down:
        first = make(SINKS["phoenix"](down.url))
        first.offer(sample(1))
        first.flush(0.5)
        first.shutdown(0.5)
    second = make(SINKS["phoenix"](platform.url))
    second.offer(sample(2))
    assert second.flush(20)
    # Long enough for several looks at what others left behind.
    time.sleep(2.5)
    assert {key.split()[0] for key in platform.kept} == {f"{3:016x}"}
    assert second.spooled()["undelivered"] == 1


def test_what_waits_too_long_is_lost_and_counted(
    make: Make, platform: Platform, caplog: pytest.LogCaptureFixture
) -> None:
    """Beyond its time it leaves the spool: counted, with one line in the log."""
    platform.status = 503
    with caplog.at_level(logging.WARNING, "rag_eval_hooks"):
        evals = make(SINKS["phoenix"](platform.url), sink_retry_for=0.1, sink_keep_for=0.1)
        for number in range(8):
            evals.offer(sample(number))
        until(lambda: evals.spooled().get("scored") == 8 and "undelivered" not in evals.spooled())
        until(lambda: _lost(evals) == 8)
    told = [r.getMessage() for r in caplog.records if "kept too long" in r.getMessage()]
    assert len(told) == 1


def _lost(evals: RagEval) -> int:
    counts = evals.stats().incidents
    return sum(count for kind, count in counts.items() if "kept too long: Lost" in kind)


def test_what_waits_is_bounded(
    make: Make, platform: Platform, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A platform has so many bytes in the spool; more waits in memory alone, then it is lost."""
    platform.status = 503
    long = Metric(
        id="own.long",
        score=lambda *_: Score(value=1.0, normalised=1.0, explanation={"why": "x" * 50_000}),
        needs=frozenset(),
    )
    sink = SINKS["langfuse"](platform.url)
    monkeypatch.setattr(limits, "EXPLANATION_CHARS", 60_000)
    evals = make(sink, [long], sink_keep_mb=1, sink_retry_for=0.2, capture_content=True)
    for number in range(40):
        evals.offer(sample(number))
    assert evals.flush(30)
    until(lambda: sink.books()["waiting"] <= 1)
    assert 15 <= evals.spooled()["undelivered"] <= 20
    assert sink.books()["lost"] >= 20
    assert evals.stats().scored == 40
    platform.status = None
    until(lambda: "undelivered" not in evals.spooled())
    with closing(sqlite3.connect(tmp_path / "spool.sqlite")) as db:
        assert db.execute("SELECT bytes FROM report_sizes").fetchall() == [(0,)]


def test_no_key_stands_in_the_spool(make: Make, platform: Platform, tmp_path: Path) -> None:
    """Neither a platform's key nor credentials in its address are written to the file."""
    platform.status = 401
    address = platform.url.replace("http://", "http://user:sk-secret@")
    sinks = [sink(platform.url) for sink in SINKS.values()] + [PhoenixSink(address)]
    evals = make(sinks)
    evals.offer(sample(1))
    evals.flush(2)
    platform.status = 503
    evals.offer(sample(2))
    evals.flush(1)
    written = b"".join(
        path.read_bytes() for path in tmp_path.glob("spool.sqlite*") if path.is_file()
    )
    assert b"s2" in written or b"reports" in written
    assert b"sk-secret" not in written
