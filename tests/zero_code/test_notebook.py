"""A notebook in a real Jupyter kernel, which `make servers` installs."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.servers.otlp_collector import OtlpCollector
from tests.zero_code.served import BIN

pytestmark = pytest.mark.skipif(not BIN.is_dir(), reason="make servers makes the environment")

CELLS = """
from rag_eval_hooks import RagEval, setup_tracing
setup_tracing(endpoint="COLLECTOR")
evals = RagEval(metrics=["ragas.faithfulness"])
said = {"question": "How long?", "contexts": ["It lasts 2 years."], "answer": "It lasts 5 years."}
evals
# %%
with evals.interaction(said["question"]) as asked:
    asked.contexts(said["contexts"])
    asked.answer(said["answer"])
# %%
await evals.aevaluate(said)
# %%
evals.evaluate(said)
"""


@pytest.mark.parametrize(("end", "last"), [("shutdown", ""), ("SIGTERM", "# %%\nevals.flush()")])
def test_a_kernel_shows_tables_and_loses_no_span(end: str, last: str, tmp_path: Path) -> None:
    """Results are tables; Jupyter's shutdown waits for spans; after `flush` SIGTERM loses none."""
    with OtlpCollector() as collector:
        done = subprocess.run(
            [BIN / "python", Path(__file__).with_name("kernel.py"), end],
            input=CELLS.replace("COLLECTOR", collector.url) + last,
            cwd=tmp_path,
            env={"PATH": os.environ["PATH"], "HOME": str(tmp_path)},
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 0, done.stderr
        (span,) = [s for s in collector.received if s.name.startswith("invoke_workflow")]
    scores = {item.key: item.value.double_value for item in span.attributes}
    assert scores["rag.eval.ragas.faithfulness.score"] == 0.0
    about, *results = json.loads(done.stdout)
    assert "ragas.faithfulness" in about
    assert [table.count("It lasts 5 years.") for table in results] == [1, 1]
