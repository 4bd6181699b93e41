"""Options and profiles. `pytest --long` also runs tests marked `long`, with more inputs."""

from __future__ import annotations

import gc
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import certifi
import pytest
from hypothesis import settings

from rag_eval_hooks import RagEval
from tests.support.cores import model_processes_have_cores
from tests.support.servers.brokers import RedisServer
from tests.support.variation import run_seed

_VARIABLE = "RAGEVAL_TESTS_LONG"  # read by tests/support/size.py, in subprocesses too

# No deadline: the time of an example depends on what else the machine does.
settings.register_profile("quick", deadline=None, max_examples=40)
settings.register_profile("long", deadline=None, max_examples=100)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--long", action="store_true", help="run everything, at full size")


def pytest_report_header() -> str:
    return f"texts of the matrix: RAGEVAL_SEED={run_seed()}"


def pytest_configure(config: pytest.Config) -> None:
    # Before the workers begin, which take it over.
    run_seed()
    full = config.getoption("--long")
    if full:
        os.environ[_VARIABLE] = "1"
    settings.load_profile("long" if full else "quick")
    # Each client reads all authorities that it trusts, for a tenth of a second; one does here.
    first, end, _ = Path(certifi.where()).read_text("utf-8").partition("-----END CERTIFICATE-----")
    folder = Path(tempfile.mkdtemp())
    config.add_cleanup(partial(shutil.rmtree, folder))
    (folder / "authority.pem").write_text(f"{first}{end}\n", "utf-8")
    os.environ["SSL_CERT_FILE"] = str(folder / "authority.pem")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    # What is imported stays: the garbage collector need not look at it, now or later.
    gc.disable()
    yield
    gc.freeze()
    gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--long"):
        return
    long = [item for item in items if item.get_closest_marker("long")]
    if long:
        config.hook.pytest_deselected(items=long)
        items[:] = [item for item in items if not item.get_closest_marker("long")]


@pytest.fixture
def shut_down_after() -> Iterator[Callable[[RagEval], RagEval]]:
    made: list[RagEval] = []

    def register(evals: RagEval) -> RagEval:
        made.append(evals)
        return evals

    yield register
    for evals in made:
        evals.shutdown(0.1)


@pytest.fixture(scope="module")
def cores() -> Iterator[None]:
    with model_processes_have_cores():
        yield


@pytest.fixture(scope="module")
def redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """A Redis of the module's own; only for tests that skip where there is none."""
    with RedisServer(tmp_path_factory.mktemp("redis")) as server:
        yield server
