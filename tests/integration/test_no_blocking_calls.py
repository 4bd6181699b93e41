"""Evaluation under blockbuster, which fails on calls that block any event loop."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.scripts import run_script
from tests.support.variation import Variation, seeds

pytest.importorskip("blockbuster")


@pytest.mark.parametrize("seed", seeds(1))
def test_the_first_evaluation_blocks_no_event_loop(tmp_path: Path, seed: int) -> None:
    """The heuristic judge has read its files before a loop runs: nothing fails, all is scored."""
    drawn = Variation(seed)
    answer = drawn.sentence()
    values = {
        "question": drawn.question(),
        "contexts": [answer, drawn.passage()],
        "answer": answer,
    }
    script = """
        import asyncio, json, os
        from blockbuster import blockbuster_ctx
        from rag_eval_hooks import RagEval, Sample

        evals = RagEval()
        sample = Sample(**json.loads(os.environ["SAMPLE"]))

        async def request():
            with blockbuster_ctx():
                evals.submit(sample)
                await asyncio.to_thread(evals.flush, 60)

        asyncio.run(request())
        stats = evals.stats()
        print(json.dumps([stats.scored, dict(stats.incidents)]))
        """
    assert json.loads(run_script(tmp_path, script, SAMPLE=json.dumps(values))) == [1, {}]
