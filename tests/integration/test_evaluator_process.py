"""Laws of the evaluator process: real processes, really killed."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks.corpus import samples
from rag_eval_hooks import (
    ConfigError,
    Metric,
    NotScored,
    RagEval,
    RagEvalConfig,
    Sample,
    Score,
)
from rag_eval_hooks.evaluation.process import Launch, NotPortable, ProcessScorer, packed
from rag_eval_hooks.evaluation.process.handle import EvaluatorProcess, EvaluatorRefused
from rag_eval_hooks.judges.callable_judge import CallableJudge
from rag_eval_hooks.judges.openai import OpenAIJudge
from rag_eval_hooks.sample import Context
from rag_eval_hooks.score import Cause
from rag_eval_hooks.testing import Findings, MemorySink, ScriptedJudge, Support
from tests.servers.judge_server import JudgeServer
from tests.servers.own_metrics import about, absent, asked, deeds, slow
from tests.waiting import until

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs a POSIX system")

Make = Callable[..., RagEval]


@pytest.fixture
def make() -> Iterator[Make]:
    """Makes evaluators in a process, and shuts them down."""
    made: list[RagEval] = []

    def make(*metrics: str | Metric, judge: Any = None, sinks: Any = None, **more: Any) -> RagEval:
        config = RagEvalConfig(**{"evaluator": "process", "embedder": "none", **more})
        made.append(RagEval(metrics or None, judge, sinks=sinks, config=config))
        return made[-1]

    yield make
    for evals in made:
        evals.shutdown()


def pid_of(evals: RagEval) -> int:
    pid = evals._pipeline._scorer.pid  # type: ignore[attr-defined]
    assert isinstance(pid, int)
    return pid


def is_there(pid: int) -> bool:
    """Whether a process runs; a zombie does not."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def gone(pid: int, seconds: float = 10.0) -> bool:
    end = time.monotonic() + seconds
    while is_there(pid) and time.monotonic() < end:
        time.sleep(0.02)
    return not is_there(pid)


def ask(deed: str = "", question: str = "four", **metadata: Any) -> Sample:
    return Sample(question=question, metadata={"deed": deed, **metadata})


def told(evals: RagEval, sample: Sample | None = None) -> Any:
    outcome = evals.evaluate(sample or ask())["own.about"]
    assert isinstance(outcome, Score)
    return outcome.explanation


def test_scores_are_those_of_the_thread(make: Make) -> None:
    """Every metric has the same outcome, explanation included, in a process and in a thread."""
    batch = [*samples(4), Sample(question="q"), Sample(question="q", answer="a", contexts=())]
    for metrics in ((), ("all",)):
        here, there = make(*metrics, evaluator="thread"), make(*metrics)
        for sample in batch:
            assert there.evaluate(sample) == here.evaluate(sample)
            assert list(there.evaluate(sample)) == list(here.evaluate(sample))


def test_usage_and_cost_come_back(make: Make, tmp_path: Any) -> None:
    """A hosted judge in the process is paid for as in the thread, and its key stays secret."""
    prices = tmp_path / "prices.toml"
    prices.write_text('currency = "USD"\n[models]\n"m" = {input = 1.0, output = 2.0}\n')
    with JudgeServer() as server:
        settings = {
            "judge_base_url": server.url,
            "judge_api_key": "sk-secret",
            "judge_prices": str(prices),
        }
        outcomes = [
            make("ragas.faithfulness", judge="openai:m", evaluator=where, **settings).evaluate(
                samples(1)[0]
            )
            for where in ("thread", "process")
        ]
    assert outcomes[0] == outcomes[1]
    (outcome,) = outcomes[1].values()
    assert outcome.usage.calls > 0
    assert outcome.usage.cost is not None
    assert "sk-secret" not in repr(outcomes)


def test_the_background_goes_the_same_way(make: Make) -> None:
    """Offered samples are evaluated in the process, delivered and counted here."""
    sink = MemorySink()
    evals = make(about, sinks=[sink])
    assert all(evals.offer(ask(question=str(n))) for n in range(20))
    assert evals.flush(60)
    assert evals.stats().scored == evals.stats().offered == 20
    pids = {result.outcomes["own.about"].explanation["pid"] for result in sink.results}  # type: ignore[union-attr]
    assert pids == {pid_of(evals)}
    assert os.getpid() not in pids


async def test_async_callers_get_their_own_outcomes(make: Make) -> None:
    """Many samples are in the process at once, and each caller gets those of its own."""
    evals = make(deeds, evaluator_concurrency=4)
    questions = ["q" * n for n in range(1, 40)]
    found = await asyncio.gather(*(evals.aevaluate(ask(question=text)) for text in questions))
    assert [outcomes["own.deeds"].value for outcomes in found] == list(  # type: ignore[union-attr]
        map(float, map(len, questions))
    )


def test_nothing_starts_before_the_first_sample(make: Make) -> None:
    """An evaluator that is only made costs no process; what is sampled out neither."""
    evals = make(deeds, sample_rate=0.0)
    evals.offer(ask())
    assert evals._pipeline._scorer.pid is None  # type: ignore[attr-defined]


def test_the_process_is_quiet_and_bounded(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """It exports nothing whatever the environment says, gives way, and is bounded."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://localhost:1")
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "otlp")
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    monkeypatch.delenv("ONEDNN_PRIMITIVE_CACHE_CAPACITY", raising=False)
    evals = make(about, evaluator_threads=2, evaluator_nice=3)
    there = told(evals)
    assert there["otel"] == ["OTEL_SDK_DISABLED"]
    assert there["tracer"].startswith("opentelemetry.trace")
    assert there["meter"].startswith("opentelemetry.metrics")
    assert not there["records"]
    assert there["quiet"]
    assert there["shapes"] == "0"
    assert there["threads"] == "2"
    assert there["nice"] == min(19, os.nice(0) + 3)
    if sys.platform == "linux":
        assert set(there["schedulers"]) == {os.SCHED_IDLE}
    assert there["parent"] == os.getpid()
    assert there["main"] is None


@pytest.mark.skipif(sys.platform != "linux", reason="Linux has the policy")
def test_it_need_not_live_on_what_others_leave(make: Make) -> None:
    """`evaluator_idle=False` leaves it scheduled as the application is."""
    there = told(make(about, evaluator_idle=False))
    assert set(there["schedulers"]) == {os.SCHED_OTHER}


def test_it_prints_nothing_and_logs_no_content(
    make: Make, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """What user code prints there is not printed here; that a library warned is said once."""
    with caplog.at_level(logging.INFO, "rag_eval_hooks"):
        make(deeds).evaluate(ask("print"))
    out, err = capfd.readouterr()
    assert "secret" not in out + err + caplog.text
    assert caplog.text.count("WARNING of logger some.library") == 1


@pytest.mark.parametrize("deed", ["raise", "exit"])
def test_what_a_metric_raises_is_counted_here(make: Make, deed: str) -> None:
    """Exceptions of user code, exits included, are incidents and outcomes of this sample alone."""
    evals = make(deeds, absent)
    outcomes = evals.evaluate(ask(deed))
    assert isinstance(outcomes["own.deeds"], NotScored)
    assert outcomes["own.deeds"].cause is Cause.METRIC_FAILED
    kind = "ValueError" if deed == "raise" else "SystemExit"
    assert [name for name in evals.stats().incidents if name.endswith(kind)]
    before = pid_of(evals)
    assert isinstance(evals.evaluate(ask())["own.deeds"], Score)
    assert pid_of(evals) == before


def test_a_score_that_cannot_be_sent_is_absent_alone(make: Make) -> None:
    """An explanation that cannot be pickled costs its own metric, no other."""
    outcomes = make(deeds, about).evaluate(ask("unsendable"))
    assert isinstance(outcomes["own.deeds"], NotScored)
    assert outcomes["own.deeds"].cause is Cause.METRIC_FAILED
    assert isinstance(outcomes["own.about"], Score)


def test_metadata_that_cannot_be_sent_is_left_out(make: Make) -> None:
    """A sample with an object of the application in its metadata is evaluated without it."""
    evals = make(about)
    sample = Sample(question="q", metadata={"tenant": "a", "session": lambda: 1})
    assert told(evals, sample)["metadata"] == ["tenant"]
    assert sum(evals.stats().incidents.values()) == 1


def test_a_sample_that_is_too_large_is_not_sent(make: Make) -> None:
    """A sample over the limit is absent with the reason; the process goes on."""
    evals = make(deeds, evaluator_message_mb=1)
    outcome = evals.evaluate(ask(question="x" * 2_000_000))["own.deeds"]
    assert isinstance(outcome, NotScored)
    assert outcome.cause is Cause.DROPPED
    assert isinstance(evals.evaluate(ask())["own.deeds"], Score)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSEGV])
def test_a_process_that_is_killed_is_replaced_and_nothing_lost(
    make: Make, how: signal.Signals, caplog: pytest.LogCaptureFixture
) -> None:
    """Samples that were in a killed process are evaluated by the next one; one line says so."""
    evals = make(slow)
    assert evals.evaluate(ask())
    before = pid_of(evals)
    for _ in range(30):
        evals.offer(ask(seconds=0.02))
    time.sleep(0.1)
    os.kill(before, how)
    assert evals.flush(60)
    assert evals.stats().scored == 30
    assert pid_of(evals) != before
    assert not is_there(before)
    assert evals.stats().incidents == {f"evaluator process: {how.name}": 1}
    assert caplog.text.count(how.name) == 1


def test_signals_for_the_application_are_not_for_the_process(make: Make) -> None:
    """Ctrl-C and a service manager's SIGTERM to the whole group do not lose what is in work."""
    evals = make(slow)
    evals.evaluate(ask())
    before = pid_of(evals)
    evals.offer(ask(seconds=0.3))
    time.sleep(0.1)
    for sent in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        os.kill(before, sent)
    assert evals.flush(30)
    assert evals.stats().scored == 1
    assert pid_of(evals) == before


@pytest.mark.parametrize("deed", ["kill", "crash"])
def test_a_sample_that_kills_takes_no_other_with_it(make: Make, deed: str) -> None:
    """Whoever was in the process with a sample that ends it is scored; that one is not."""
    evals = make(deeds)
    for n in range(12):
        evals.offer(ask(deed if n == 5 else ""))
    assert evals.flush(60)
    stats = evals.stats()
    assert (stats.scored, stats.failed) == (11, {"evaluator_died": 1})
    assert stats.offered == 12
    assert sum(stats.incidents.values()) == 2


@pytest.mark.long
def test_a_process_that_always_dies_holds_nothing_up(make: Make) -> None:
    """Where every sample ends the process, each fails soon: none waits for pauses that grow."""
    evals = make(deeds, sample_timeout=0.5)
    for _ in range(12):
        evals.offer(ask("kill"))
    assert evals.flush(60)
    assert evals.stats().failed == {"evaluator_died": 12}


@pytest.mark.long
def test_a_process_that_hangs_is_killed(make: Make) -> None:
    """A sample that holds the interpreter forever is a time-out; others are scored."""
    evals = make(deeds, sample_timeout=0.5)
    evals.evaluate(ask())
    before = pid_of(evals)
    evals.offer(ask("hang"))
    time.sleep(0.2)
    assert evals.offer(ask())
    assert evals.flush(60)
    assert gone(before)
    stats = evals.stats()
    assert (stats.scored, stats.failed) == (1, {"timeout": 1})
    assert stats.incidents["evaluator process: no reply in time"] == 2


def test_a_slow_metric_of_the_users_own_is_waited_for(make: Make) -> None:
    """The process is not taken to hang while an own metric is within its own time limit."""
    evals = make(asked, sample_timeout=0.5)
    assert isinstance(evals.evaluate(ask())["own.asked"], Score)
    scorer = evals._pipeline._scorer
    assert isinstance(scorer, ProcessScorer)
    assert scorer._limits.reply_timeout > asked.timeout > 60 * scorer._limits.sample_timeout


def test_shutdown_ends_the_process(make: Make) -> None:
    """After a shutdown there is no process, nor one that was at work."""
    evals = make(slow)
    evals.evaluate(ask())
    pid = pid_of(evals)
    evals.offer(ask(seconds=600))
    time.sleep(0.1)
    assert not evals.shutdown(0.2)
    assert gone(pid)
    assert evals.stats().dropped == {"shutdown": 1}
    with pytest.raises(RuntimeError, match="shut down"):
        evals.evaluate(ask())


def test_shutdown_while_it_starts(make: Make) -> None:
    """A process that is not ready yet ends with the shutdown, and its sample is counted."""
    evals = make(deeds)
    evals.offer(ask())
    while (pid := evals._pipeline._scorer.pid) is None:  # type: ignore[attr-defined]
        time.sleep(0.001)
    assert not evals.shutdown(0.0)
    assert gone(pid)
    assert evals.stats().dropped == {"shutdown": 1}


@pytest.mark.long
def test_a_process_whose_event_loop_is_gone_is_reaped(make: Make) -> None:
    """The process of a loop that ended is ended too, and not even a zombie is left of it."""
    scorer: Any = make(about)._pipeline._scorer

    async def second_loop() -> None:
        await scorer.score(ask())
        assert scorer.pid != first
        await scorer.aclose()

    asyncio.run(scorer.score(ask()))
    first = scorer.pid
    asyncio.run(second_loop())
    until(lambda: not Path(f"/proc/{first}").exists())


def test_a_process_that_is_slow_to_end_is_reaped(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Shutdown does not wait for a killed process that gets no core; its end is noted later."""
    evals = make(about)
    evals.evaluate(ask())
    pid = pid_of(evals)
    wait = subprocess.Popen.wait

    def at_most(process: subprocess.Popen[bytes], timeout: float | None = None) -> int:
        if timeout is not None:
            raise subprocess.TimeoutExpired("evaluator", timeout)
        return wait(process)

    os.kill(pid, signal.SIGSTOP)
    monkeypatch.setattr(subprocess.Popen, "wait", at_most)
    evals.shutdown(0.0)
    until(lambda: not Path(f"/proc/{pid}").exists())


async def test_an_interpreter_that_finds_nothing_is_told_of() -> None:
    """Where the process cannot even import this package, the reason comes back."""
    handle = EvaluatorProcess(Launch(b"", 1, 1 << 20, (), None), print, print)
    with pytest.raises(EvaluatorRefused, match="ModuleNotFoundError: No module named"):
        await handle.start()
    assert handle.ended


def local_metric(sample: Sample, findings: Findings) -> Score:
    return Score(value=1.0, normalised=1.0)


def test_what_cannot_be_sent_is_an_error_at_start_up(make: Make) -> None:
    """A process that was asked for and cannot be had is a ConfigError that says why."""
    own = Metric(id="own.x", score=lambda s, f: local_metric(s, f), needs=frozenset())
    with pytest.raises(ConfigError, match="evaluator: got 'process'; wants 'thread'"):
        make(own)


def test_what_stands_in_main_is_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Functions and classes of the main module are refused: the process has another one."""
    packed(Metric(id="own.x", score=local_metric, needs=frozenset()))
    monkeypatch.setattr(local_metric, "__module__", "__main__")
    with pytest.raises(NotPortable, match="local_metric is defined in __main__"):
        packed(Metric(id="own.x", score=local_metric, needs=frozenset()))


def test_auto_is_a_thread_without_a_local_model(make: Make) -> None:
    """Rules and hosted judges stay in this process, where nothing of theirs is heavy."""
    evals = make(about, evaluator="auto")
    assert told(evals)["pid"] == os.getpid()


class Heavy(ScriptedJudge):
    """A judge of the user's own with a model in it."""

    local_model = True


class Choosy(Heavy):
    """One that another process cannot make."""

    def __reduce__(self) -> Any:
        return _never, ()


def _never() -> None:
    raise OSError("no model here")


def test_auto_is_a_process_with_a_local_model(make: Make) -> None:
    """A judge that says that it computes by itself is moved out of the way."""
    judge = Heavy(Findings(answer_claims=("a",), answer_support=(Support((True,)),)))
    evals = make(about, "ragas.faithfulness", judge=judge, evaluator="auto")
    outcomes = evals.evaluate(Sample(question="q", contexts=(Context(text="c"),), answer="a"))
    assert outcomes["own.about"].explanation["pid"] == pid_of(evals)  # type: ignore[union-attr]
    assert outcomes["ragas.faithfulness"].value == 1.0  # type: ignore[union-attr]


def test_auto_stays_where_a_process_cannot_be_had(
    make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    """What cannot be sent is evaluated in the thread, and one line says why."""
    judge = Heavy(lambda task: Findings())
    evals = make(about, judge=judge, evaluator="auto")
    assert told(evals)["pid"] == os.getpid()
    assert len(caplog.records) == 1
    assert "cannot be pickled" in caplog.text


@pytest.mark.parametrize("where", ["auto", "process"])
def test_what_the_process_refuses(make: Make, where: str, caplog: pytest.LogCaptureFixture) -> None:
    """A process that cannot be made is tried once: `auto` goes on in the thread, else it fails."""
    evals = make(about, judge=Choosy(), evaluator=where)
    for _ in range(3):
        evals.offer(ask())
    assert evals.flush(30)
    assert len(caplog.records) == 1
    assert "no model here" in caplog.text
    assert evals.stats().scored == (3 if where == "auto" else 0)
    assert evals.stats().failed == ({} if where == "auto" else {"evaluator_died": 3})


async def own_model(messages: list[dict[str, str]]) -> str:
    return "{}"


def test_judges_of_this_package_can_be_sent() -> None:
    """Judges given as objects are made anew in the process, with the same name."""
    with_key = OpenAIJudge("m", base_url="http://localhost:1", api_key="sk-secret", retries=1)
    for judge in (with_key, CallableJudge(own_model, name="mine")):
        import pickle

        again = pickle.loads(packed(judge))
        assert (type(again), again.name) == (type(judge), judge.name)
        assert "sk-secret" not in repr(again)
