"""Laws of a local model in a child process: real processes, killed, forked and ended."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from rag_eval_hooks import JudgeError
from rag_eval_hooks.calls import Caller, Operation
from rag_eval_hooks.judges import local_model
from rag_eval_hooks.judges.local_model import LocalModel
from tests.support.scripts import run_script
from tests.support.servers.own_models import load, load_badly
from tests.support.size import size
from tests.waiting import until

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs a POSIX system")

Model = LocalModel[str, dict[str, Any]]
CALLER = Caller("own", Operation.EMBEDDINGS, local=True)
Make = Callable[..., Model]


@pytest.fixture
async def make() -> AsyncIterator[Make]:
    made: list[Model] = []

    def make(load: Any = load) -> Model:
        made.append(LocalModel("own", CALLER, load))
        return made[-1]

    yield make
    for model in made:
        await model.aclose()


@pytest.fixture
def frozen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "frozen", True, raising=False)


async def about(model: Model, text: str = "text") -> dict[str, Any]:
    (result,) = await model.run([text])
    assert isinstance(result, dict)
    return result


def is_gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


async def test_results_are_those_of_the_thread(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = ["one", "", "raise", "lone \ud800", "one", "x" * 1_000_000]
    there = await make().run(texts)
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    here = await make().run(texts)

    def essence(results: list[Any]) -> list[str]:
        return [str(r) if isinstance(r, JudgeError) else r["text"] for r in results]

    assert essence(there) == essence(here)
    assert essence(here)[2] == "own: the model raised ValueError"
    assert there[0]["pid"] != here[0]["pid"] == os.getpid()  # type: ignore[index]


async def test_the_process_is_quiet_and_bounded(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://localhost:1")
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "otlp")
    monkeypatch.setenv("RAG_EVAL_JUDGE_API_KEY", "secret")
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    monkeypatch.delenv("ONEDNN_PRIMITIVE_CACHE_CAPACITY", raising=False)
    there = await about(make())
    expected = {"otel": ["OTEL_SDK_DISABLED"], "own": [], "records": False, "main": None}
    expected |= {"shapes": "0", "threads": "1", "tokenizers": "false", "parent": os.getpid()}
    expected |= {"nice": min(19, os.nice(0) + 10)}
    expected |= {"scheduler": os.SCHED_IDLE} if sys.platform == "linux" else {}
    assert {name: there[name] for name in expected} == expected


@pytest.mark.parametrize(
    "deed", ["kill", *(pytest.param(d, marks=pytest.mark.long) for d in ("crash", "exit"))]
)
async def test_a_text_that_ends_the_process_fails_alone(
    make: Make, deed: str, caplog: pytest.LogCaptureFixture
) -> None:
    model = make()
    texts = ["a", "b", deed, "c"]
    results = await model.run(texts)
    errors = [isinstance(result, JudgeError) for result in results]
    assert errors == [False, False, True, False]
    assert "the model process exited" in str(results[2])
    assert len(caplog.records) == 2
    assert (await about(model))["pid"] == results[3]["pid"]  # type: ignore[index]


@pytest.mark.parametrize("how", size([signal.SIGKILL], [signal.SIGKILL, signal.SIGSEGV]))
async def test_a_killed_process_is_replaced_and_nothing_lost(
    make: Make, how: signal.Signals, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    model = make()
    before = (await about(model))["pid"]
    texts = ["one", f"{how.name} once {tmp_path / 'killed'}", "two"]
    results: list[Any] = await model.run(texts)
    assert [result["text"] for result in results] == texts
    (after,) = {result["pid"] for result in results}
    assert after != before
    assert is_gone(before)
    assert caplog.text.count(how.name) == 1


@pytest.mark.long
async def test_a_process_that_always_dies_holds_nothing_up(make: Make, tmp_path: Path) -> None:
    model = make()
    results = await model.run([f"SIGKILL once {tmp_path / 'no' / str(n)}" for n in range(50)])
    assert all(isinstance(result, JudgeError) for result in results)
    with pytest.raises(JudgeError, match="keeps crashing"):
        await model.run(["text"])


@pytest.mark.long
async def test_a_process_that_hangs_is_killed(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_model, "REPLY_TIMEOUT_S", 20.0)
    model = make()
    before = await about(model)
    hung, other = await model.run(["hang", "text"])
    assert is_gone(before["pid"])
    assert "no reply in time" in str(hung)
    assert isinstance(other, dict)


async def test_signals_for_the_application_are_not_for_the_process(make: Make) -> None:
    model = make()
    pid = (await about(model))["pid"]
    for sent in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        os.kill(pid, sent)
    assert (await about(model, "sleep"))["pid"] == pid


async def test_closing_ends_a_process_at_work(make: Make) -> None:
    model = make()
    pid = (await about(model))["pid"]
    at_work = asyncio.create_task(model.run(["sleep long"]))
    await asyncio.sleep(0.05)
    await model.aclose()
    with pytest.raises(JudgeError, match="closed"):
        await at_work
    with pytest.raises(JudgeError, match="closed"):
        await model.run(["text"])
    until(lambda: is_gone(pid))


@pytest.mark.parametrize("process", [True, False])
async def test_a_model_that_cannot_be_loaded_is_remembered(
    make: Make, process: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "frozen", not process, raising=False)
    model = make(partial(load_badly, "sleep"))
    errors = []
    for _ in range(2):
        with pytest.raises(JudgeError, match=r"^own: cannot load the model \(FileNotFound") as e:
            await model.run(["text"])
        errors.append(str(e.value))
    assert errors[0] == errors[1]


async def test_a_thread_runs_the_model_where_no_process_can_be_started(
    make: Make, frozen: None, caplog: pytest.LogCaptureFixture
) -> None:
    assert (await about(make()))["pid"] == os.getpid()
    assert len(caplog.records) == 1
    assert "frozen" in caplog.text


async def test_callers_at_once_share_a_batch_and_wait_for_loading(frozen: None) -> None:
    batches: list[list[str]] = []

    def slow_load() -> Any:
        time.sleep(0.2)

        def run(texts: Sequence[str]) -> list[str]:
            batches.append(list(texts))
            if "bad" in texts:
                raise ValueError("bad")
            return [text.upper() for text in texts]

        return run

    model: LocalModel[str, str] = LocalModel("slow", CALLER, slow_load)
    start = time.monotonic()
    await asyncio.gather(model.warm_up(), model.warm_up())
    assert time.monotonic() - start >= 0.2
    found = asyncio.gather(*(model.run_all(["same", f"own {n}"]) for n in range(5)))
    assert await found == [["SAME", f"OWN {n}"] for n in range(5)]
    assert len(batches) <= 4
    results = await asyncio.gather(
        model.run_all(["bad"]), model.run_all(["good"]), return_exceptions=True
    )
    assert isinstance(results[0], JudgeError)
    assert results[1] == ["GOOD"]
    await model.aclose()


PRELUDE = """
import gc, json, multiprocessing, os, signal, sys, time
from rag_eval_hooks import RagEval, Sample
from tests.support.servers.own_models import OwnEmbedder
METRIC = "graphrag.semantic_similarity_percentage"
def asked(text="text"):
    return Sample(question="q", answer=text, reference="another text")
embedder = OwnEmbedder()
evals = RagEval(METRIC, embedder=embedder)
def told():
    assert evals.evaluate(asked())[METRIC].value > 0
    return embedder.about
def show(*what):
    print(json.dumps(what), flush=True)
"""


def shown(folder: Path, script: str, end: int = 0) -> list[Any]:
    out = run_script(folder, script, prelude=PRELUDE, end=end)
    return [one for line in out.splitlines() for one in json.loads(line)]


@pytest.mark.parametrize(
    "script",
    [
        # Without a guard of the main module.
        "show(told())",
        # A worker that `multiprocessing` allows no children of its own, as Celery's.
        """
        def work():
            show(told())
            evals.shutdown()
        worker = multiprocessing.get_context("fork").Process(target=work, daemon=True)
        worker.start()
        worker.join()
        """,
    ],
)
def test_a_script_and_a_daemonic_process_have_a_model_that_ends_with_them(
    tmp_path: Path, script: str
) -> None:
    (there,) = shown(tmp_path, script)
    assert there["pid"] != there["parent"]
    until(lambda: is_gone(there["pid"]))


@pytest.mark.long
@pytest.mark.parametrize("text", ["text", "hang"])
def test_the_process_ends_with_a_host_that_is_killed(tmp_path: Path, text: str) -> None:
    script = f"""
    show(told())
    evals.submit(asked({text!r}))
    time.sleep(0.3)
    os.kill(os.getpid(), signal.SIGKILL)
    """
    (there,) = shown(tmp_path, script, end=-9)
    until(lambda: is_gone(there["pid"]))


def test_a_fork_has_a_process_of_its_own(tmp_path: Path) -> None:
    worker, before, after = shown(
        tmp_path,
        """
        before = told()
        for n in range(5):
            evals.submit(asked("sleep"))
        worker = os.fork()
        if worker == 0:
            evals.submit(asked())
            assert evals.flush(300) and evals.stats().scored == evals.stats().offered == 1
            gc.collect()
            show(told())
            evals.shutdown()
            os._exit(0)
        assert os.waitpid(worker, 0)[1] == 0
        assert evals.flush(300) and evals.stats().scored == evals.stats().offered == 5
        show(before, told())
        """,
    )
    assert before["pid"] == after["pid"] != worker["pid"]
    assert worker["parent"] != before["parent"]
    for one in (before, worker):
        until(lambda: is_gone(one["pid"]))  # noqa: B023


def test_a_model_process_that_nobody_closed_does_not_block_the_exit(tmp_path: Path) -> None:
    script = """
        import asyncio
        from functools import partial
        from operator import methodcaller
        from rag_eval_hooks.calls import Caller
        from rag_eval_hooks.judges.local_model import LocalModel
        model = LocalModel("own", Caller("own"), partial(methodcaller, "copy"))
        print(asyncio.run(model.run([1, 2])))
    """
    assert run_script(tmp_path, script) == "[1, 2]\n"
