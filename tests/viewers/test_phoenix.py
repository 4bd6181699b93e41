"""The demo in a real Phoenix, read back by its APIs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from rag_eval_hooks.delivery.platforms.phoenix import PhoenixSink
from tests.viewers.conftest import InPhoenix
from tests.viewers.redeliver import redeliver


def test_every_score_is_an_attribute_of_the_rag_span(in_phoenix: InPhoenix) -> None:
    """Phoenix shows on each RAG span exactly the scores of the results file."""
    spans = in_phoenix.server.spans()
    for one in in_phoenix.scored:
        tree = json.loads(spans[one.span_id]["attributes"])["rag"]["eval"]
        for name, value in one.scores.items():
            suite, metric = name.split(".")
            assert tree[suite][metric]["score"] == value
        assert tree["status"] == one.status


def test_every_score_is_an_annotation(in_phoenix: InPhoenix) -> None:
    """Each score is an annotation with value, explanation, kind and identifier, and no other is."""
    for one in in_phoenix.scored:
        found = in_phoenix.server.annotations(one.span_id)
        assert {name: note["result"]["score"] for name, note in found.items()} == one.scores
        for name, note in found.items():
            assert note["annotator_kind"] == one.outcomes[name]["annotator_kind"]
            assert note["identifier"] == one.outcomes[name].get("annotator", "rag_eval_hooks")


def test_a_failing_claim_is_told(in_phoenix: InPhoenix) -> None:
    """The explanation of a low faithfulness begins with the claim that nothing supports."""
    for one in in_phoenix.scored:
        claim = one.failing_claim()
        if claim is not None:
            note = in_phoenix.server.annotations(one.span_id)["ragas.faithfulness"]
            assert f": {claim}" in note["result"]["explanation"]


@pytest.mark.parametrize("limit", [0.5, 0.9])
def test_bad_answers_are_found_by_the_filter(limit: float, in_phoenix: InPhoenix) -> None:
    """Phoenix's filter finds exactly the RAG spans whose score is below a limit."""
    found = in_phoenix.server.spans(f"annotations['ragas.faithfulness'].score < {limit}")
    low = {
        one.span_id
        for one in in_phoenix.scored
        if one.scores.get("ragas.faithfulness", 1.0) < limit
    }
    assert low
    assert set(found) == low


def test_scores_sent_again_replace_themselves(in_phoenix: InPhoenix) -> None:
    """Delivered a second time, a score replaces itself, with its new value."""
    one = next(one for one in in_phoenix.scored if "ragas.faithfulness" in one.scores)
    before = in_phoenix.server.annotations(one.span_id)
    redeliver(PhoenixSink(in_phoenix.server.url), one, value=0.25)
    after = in_phoenix.server.annotations(one.span_id)
    assert set(after) == set(before)
    assert after["ragas.faithfulness"]["result"]["score"] == 0.25
    redeliver(PhoenixSink(in_phoenix.server.url), one)
    again = in_phoenix.server.annotations(one.span_id)
    assert {n: note["result"]["score"] for n, note in again.items()} == one.scores


def test_annotations_of_a_process_that_ends_arrive(in_phoenix: InPhoenix, tmp_path: Path) -> None:
    """A short script that neither flushes nor waits leaves its scores in Phoenix all the same."""
    code = (
        "from rag_eval_hooks import RagEval, setup_tracing\n"
        "from rag_eval_hooks.capture import RunKind\n"
        "from rag_eval_hooks.sample import Context\n"
        f"setup_tracing(endpoint={in_phoenix.server.url!r})\n"
        f"evals = RagEval(metrics=['lexical'], sinks='phoenix:{in_phoenix.server.url}')\n"
        "root = evals.recorder.start(1, None, RunKind.CHAIN, 'short script')\n"
        "root.query, root.text = 'q', 'According to page 1, a.'\n"
        "run = evals.recorder.start(2, 1, RunKind.RETRIEVER, 'store')\n"
        "evals.recorder.documents(run, [Context(text='a chunk')])\n"
        "evals.recorder.end(run)\n"
        "evals.recorder.end(root)\n"
    )
    subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        check=True,
        timeout=60,
        env={**os.environ, "PYTHONPATH": ":".join(sys.path)},
    )
    spans = in_phoenix.server.spans("annotations['lexical.source_citation'].score >= 0")
    assert "invoke_workflow short script" in {span["name"] for span in spans.values()}
