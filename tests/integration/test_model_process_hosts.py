"""The model process in hosts of every kind: scripts, forks, servers, and their sudden ends."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import textwrap
import time
import urllib.request
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.waiting import PATIENCE

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")

HEAD = """
import json, os, sys, time
from rag_eval_hooks import RagEval, RagEvalConfig, Sample
from tests.servers.own_models import OwnEmbedder
METRIC = "graphrag.semantic_similarity_percentage"
def asked(text="text"):
    return Sample(question="q", answer=text, reference="another text")
"""
MAKE = """
embedder = OwnEmbedder(process=True)
evals = RagEval(METRIC, embedder=embedder)
def told():
    assert evals.evaluate(asked())[METRIC].value > 0
    return embedder.about
"""


@contextlib.contextmanager
def host(folder: Path, *command: str) -> Iterator[subprocess.Popen[str]]:
    """An application as a process of its own, killed at the end in any case."""
    process = subprocess.Popen(
        [sys.executable, "-W", "ignore", *command],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, map(_absolute, sys.path)))},
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def _absolute(entry: str) -> str:
    return str(Path(entry).resolve())


def output(folder: Path, *command: str) -> list[Any]:
    """The JSON lines that an application prints until it ends well."""
    with host(folder, *command) as process:
        out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, err
    assert "Traceback" not in err, err
    assert "Warning" not in err, err
    return [json.loads(line) for line in out.splitlines()]


def script(text: str) -> str:
    return HEAD + MAKE + textwrap.dedent(text)


def is_there(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def gone(pid: int) -> bool:
    end = time.monotonic() + PATIENCE
    while is_there(pid) and time.monotonic() < end:
        time.sleep(0.02)
    return not is_there(pid)


def children(pid: int) -> list[int]:
    return [int(text) for text in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


PRINT = "print(json.dumps(told()), flush=True)"


def test_a_script_without_a_guard(tmp_path: Path) -> None:
    """The application's main is run once, guard or no guard."""
    path = tmp_path / "app.py"
    path.write_text(script("print(json.dumps('main'))\n" + PRINT))
    main, there = output(tmp_path, str(path))
    assert main == "main"
    assert there["pid"] != there["parent"]
    assert gone(there["pid"])


@pytest.mark.long
def test_a_command_line(tmp_path: Path) -> None:
    """`python -c` has a process too."""
    (there,) = output(tmp_path, "-c", script(PRINT))
    assert gone(there["pid"])


@pytest.mark.long
def test_standard_input_is_not_touched(tmp_path: Path) -> None:
    """A program read from standard input runs to its end."""
    with host(
        tmp_path,
        "-c",
        "import subprocess, sys; sys.exit(subprocess.run("
        "[sys.executable], input=sys.argv[1], text=True).returncode)",
        script(PRINT),
    ) as app:
        out, err = app.communicate(timeout=PATIENCE)
    assert json.loads(out)["pid"], err


@pytest.mark.long
def test_a_zipped_application_in_another_folder(tmp_path: Path) -> None:
    """A zipped application with a model inside, started from elsewhere by a relative path."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    model = """
def load():
    return lambda texts: [__file__ for _ in texts]
"""
    main = HEAD + textwrap.dedent("""
        import asyncio
        from inside import load
        from rag_eval_hooks.judges.local_model import LocalModel
        model = LocalModel("own", "own-model", load, True)
        os.chdir("/")
        print(json.dumps(asyncio.run(model.run(["text"]))[0]))
        asyncio.run(model.aclose())
    """)
    with zipfile.ZipFile(tmp_path / "app.pyz", "w") as archive:
        archive.writestr("__main__.py", main)
        archive.writestr("inside.py", model)
    (there,) = output(elsewhere, "../app.pyz")
    assert there.endswith("app.pyz/inside.py")


@pytest.mark.long
def test_what_lies_in_the_working_directory_is_not_imported(tmp_path: Path) -> None:
    """A module of the application named as one of the standard library harms nothing."""
    (tmp_path / "socket.py").write_text("raise SystemExit('imported')")
    (tmp_path / "sitecustomize.py").write_text("raise SystemExit('imported')")
    path = tmp_path / "elsewhere" / "app.py"
    path.parent.mkdir()
    path.write_text(script(PRINT))
    (there,) = output(tmp_path, str(path))
    assert there["folder"] == str(tmp_path)


@pytest.mark.long
def test_tracers_that_start_with_python_do_not_start_there(tmp_path: Path) -> None:
    """A `sitecustomize` on PYTHONPATH, as `opentelemetry-instrument` puts it, runs here alone."""
    folder = tmp_path / "tracer"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(
        "import os; open(os.environ['STARTS'], 'a').write('started\\n')"
    )
    starts = tmp_path / "starts"
    code = f"""
import os, subprocess, sys
path = os.pathsep.join([{str(folder)!r}, os.environ["PYTHONPATH"]])
env = {{**os.environ, "PYTHONPATH": path, "STARTS": {str(starts)!r}}}
sys.exit(subprocess.run([sys.executable, "-c", sys.argv[1]], env=env).returncode)
"""
    (there,) = output(tmp_path, "-c", code, script(PRINT))
    assert there["pid"]
    assert starts.read_text().count("started") == 1


@pytest.mark.long
def test_an_application_that_exports_by_the_environment(tmp_path: Path) -> None:
    """A provider that the environment names is made in the application and not in the process."""
    lines = output(
        tmp_path,
        "-c",
        "import os\nos.environ['OTEL_PYTHON_TRACER_PROVIDER'] = 'sdk_tracer_provider'\n"
        + script("""
            from opentelemetry import trace
            print(json.dumps(trace.get_tracer("t").start_span("s").is_recording()))
            there = told()
            print(json.dumps([there["records"], there["otel"]]))
        """),
    )
    assert lines == [True, [False, ["OTEL_SDK_DISABLED"]]]


@pytest.mark.long
def test_a_process_at_work_does_not_keep_the_application(tmp_path: Path) -> None:
    """An application ends within its limit, and the process with it."""
    began = time.monotonic()
    lines = output(
        tmp_path,
        "-c",
        HEAD
        + textwrap.dedent("""
            embedder = OwnEmbedder(process=True)
            evals = RagEval(METRIC, embedder=embedder, config=RagEvalConfig(exit_timeout=0.5))
            evals.evaluate(asked())
            print(json.dumps(embedder.about["pid"]))
            evals.offer(asked("sleep long"))
        """),
    )
    assert time.monotonic() - began < PATIENCE
    assert gone(lines[0])


@pytest.mark.long
def test_samples_are_finished_at_exit(tmp_path: Path) -> None:
    """Samples that wait when the application ends are evaluated by the process and delivered."""
    output(
        tmp_path,
        "-c",
        HEAD
        + textwrap.dedent("""
            embedder = OwnEmbedder(process=True)
            config = RagEvalConfig(exit_timeout=100)
            evals = RagEval(METRIC, embedder=embedder, sinks=["jsonl:results.jsonl"], config=config)
            for _ in range(5):
                evals.offer(asked("sleep"))
        """),
    )
    assert len((tmp_path / "results.jsonl").read_text().splitlines()) == 5


@pytest.mark.long
def test_it_ends_with_a_host_that_is_killed(tmp_path: Path) -> None:
    """`kill -9` of the application ends the process, also one that holds the interpreter."""
    for text in ("text", "hang"):
        code = script("print(json.dumps(told()), flush=True)")
        code += f"\nevals.offer(asked({text!r}))\ntime.sleep(600)"
        with host(tmp_path, "-c", code) as app:
            assert app.stdout is not None
            there = json.loads(app.stdout.readline())
            time.sleep(0.3)
            assert is_there(there["pid"])
            os.kill(app.pid, signal.SIGKILL)
            app.wait()
            assert gone(there["pid"])


@pytest.mark.long
def test_a_sibling_does_not_keep_it(tmp_path: Path) -> None:
    """A forked worker that lives on hides the application's end from nobody."""
    code = script("""
        there = told()
        if os.fork() == 0:
            # As a worker of a server: it outlives its parent.
            time.sleep(60)
            os._exit(0)
        print(json.dumps(there), flush=True)
        time.sleep(600)
    """)
    with host(tmp_path, "-c", code) as app:
        assert app.stdout is not None
        there = json.loads(app.stdout.readline())
        workers = [pid for pid in children(app.pid) if pid != there["pid"]]
        assert len(workers) == 1
        try:
            os.kill(app.pid, signal.SIGKILL)
            app.wait()
            assert gone(there["pid"])
            assert is_there(workers[0])
        finally:
            os.kill(workers[0], signal.SIGKILL)


@pytest.mark.long
def test_a_worker_holds_no_end_of_its_parents_socket(tmp_path: Path) -> None:
    """After a fork the worker's copy of the socket is closed: the process reads its end."""
    lines = output(
        tmp_path,
        "-c",
        script("""
            def sockets():
                links = (f"/proc/self/fd/{fd}" for fd in os.listdir("/proc/self/fd"))
                targets = {os.readlink(link) for link in links if os.path.islink(link)}
                return {target for target in targets if target.startswith("socket:")}
            evals.evaluate(Sample(question="q"))
            before = sockets()
            there = told()
            (mine,) = sockets() - before
            if os.fork() == 0:
                print(json.dumps(mine in sockets()), flush=True)
                os._exit(0)
            os.wait()
            print(json.dumps(told()["pid"] == there["pid"]), flush=True)
        """),
    )
    assert lines == [False, True]


def test_a_fork_has_a_process_of_its_own(tmp_path: Path) -> None:
    """The worker starts its own process, the parent keeps its; the books of both are right."""
    lines = output(
        tmp_path,
        "-c",
        script("""
            import gc
            before = told()
            for n in range(5):
                evals.offer(asked("sleep"))
            worker = os.fork()
            if worker == 0:
                evals.offer(asked())
                assert evals.flush(300) and evals.stats().scored == evals.stats().offered == 1
                gc.collect()
                print(json.dumps(told()), flush=True)
                evals.shutdown()
                os._exit(0)
            assert os.waitpid(worker, 0)[1] == 0
            assert evals.flush(300) and evals.stats().scored == evals.stats().offered == 5
            print(json.dumps([before, told()]), flush=True)
        """),
    )
    worker, (before, after) = lines
    assert before["pid"] == after["pid"] != worker["pid"]
    assert worker["parent"] != before["parent"]
    assert gone(before["pid"])
    assert gone(worker["pid"])


@pytest.mark.long
def test_a_fork_before_the_first_sample(tmp_path: Path) -> None:
    """An evaluator made before workers are forked, as by a preloading server, serves them all."""
    lines = output(
        tmp_path,
        "-c",
        script("""
            for _ in range(3):
                if os.fork() == 0:
                    print(json.dumps(told()["pid"]), flush=True)
                    evals.shutdown()
                    os._exit(0)
            for _ in range(3):
                assert os.wait()[1] == 0
        """),
    )
    assert len(set(lines)) == 3
    assert all(map(gone, lines))


@pytest.mark.long
def test_a_daemonic_process(tmp_path: Path) -> None:
    """A worker that `multiprocessing` allows no children of its own, as Celery's, has a model."""
    (there,) = output(
        tmp_path,
        "-c",
        script("""
            import multiprocessing
            def work():
                print(json.dumps(told()), flush=True)
                evals.shutdown()
            worker = multiprocessing.get_context("fork").Process(target=work, daemon=True)
            worker.start()
            worker.join()
        """),
    )
    assert there["parent"] != there["pid"]
    assert gone(there["pid"])


@pytest.mark.long
def test_a_working_directory_that_is_gone(tmp_path: Path) -> None:
    """An application whose working directory was deleted has its model all the same."""
    (there,) = output(
        tmp_path,
        "-c",
        HEAD + "os.mkdir('gone')\nos.chdir('gone')\nos.rmdir('../gone')\n" + MAKE + PRINT,
    )
    assert gone(there["pid"])


@pytest.mark.long
def test_a_host_that_has_its_children_reaped(tmp_path: Path) -> None:
    """A host that ignores the ends of its children gets its scores, also after a restart."""
    lines = output(
        tmp_path,
        "-c",
        script("""
            import signal
            signal.signal(signal.SIGCHLD, signal.SIG_IGN)
            first = told()["pid"]
            os.kill(first, signal.SIGKILL)
            print(json.dumps([first, told()["pid"]]))
        """),
    )
    ((first, second),) = lines
    assert first != second
    assert gone(second)


SERVER = (
    HEAD
    + """
import asyncio, contextlib, uvicorn
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route
"""
    + MAKE
    + """
async def answer(request):
    evals.offer(asked())
    return JSONResponse({"answer": "a"})

async def stats(request):
    await asyncio.to_thread(evals.flush, 120)
    await evals.aevaluate(asked("other text"))
    there = embedder.about
    return JSONResponse({"scored": evals.stats().scored, "there": there, "pid": os.getpid()})

app = Starlette(routes=[Route("/answer", answer), Route("/stats", stats)])
"""
)


def get(url: str) -> Any:
    end = time.monotonic() + PATIENCE
    while True:
        try:
            with urllib.request.urlopen(url, timeout=PATIENCE) as response:
                return json.load(response)
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.1)


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
@pytest.mark.long
def test_a_uvicorn_application(tmp_path: Path, end: signal.Signals) -> None:
    """A server's requests are scored in a process that ends with the server, however it ends."""
    (tmp_path / "served.py").write_text(SERVER)
    command = ("-m", "uvicorn", "served:app", "--port", "0", "--log-level", "info")
    with host(tmp_path, *command, "--no-access-log") as server:
        assert server.stderr is not None
        told = iter(server.stderr.readline, "")
        port = next(line.split(":")[-1].split()[0] for line in told if "running on" in line)
        for _ in range(10):
            get(f"http://127.0.0.1:{port}/answer")
        found = get(f"http://127.0.0.1:{port}/stats")
        assert found["scored"] == 10
        assert found["there"]["parent"] == found["pid"] == server.pid
        os.kill(server.pid, end)
        server.wait(PATIENCE)
        assert gone(found["there"]["pid"])
