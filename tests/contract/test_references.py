"""Golden questions lend their references to requests that ask the same."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_eval_hooks import RagEval, RagEvalConfig, Sample
from rag_eval_hooks.evaluation.golden_references import References, read_golden
from rag_eval_hooks.testing import MemorySink, ScriptedJudge

MATCH = "lexical.exact_match"
OPEN = "When did the quay open?"
MAIL, OTHER = "ada@varne.example", "bob@varne.example"
GOLDEN = {
    OPEN: "In 1931.",
    "Whom do I write to?": MAIL,
    f"Is {MAIL} the harbour master?": f"Yes, {MAIL} is.",
}


@pytest.fixture
def golden(tmp_path: Path) -> str:
    path = tmp_path / "golden.jsonl"
    rows = ({"question": one, "reference": right, "id": 7} for one, right in GOLDEN.items())
    path.write_text("\n".join(map(json.dumps, rows)))
    return str(path)


@given(st.sampled_from([str.upper, str.title, str.lower]), st.sampled_from(["  ", "\n", " \t"]))
def test_equal_question_lends_its_reference(letters: Any, space: str) -> None:
    store = References([Sample(question=OPEN, reference="In 1931.", question_id="Q1")])
    question = f"{space}{space.join(letters(OPEN).split())}{space}"
    told = store.completed(Sample(question=question, metadata={"k": 1}))
    assert (told.reference, told.question_id) == ("In 1931.", "Q1")
    assert told.metadata == {"k": 1, "reference_match": "exact"}
    for other in (Sample(question="When?"), Sample(question=OPEN, reference="Never.")):
        assert store.completed(other) is other


@given(st.text(min_size=1))
def test_golden_file_keeps_only_texts_that_requests_need(text: str) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "golden.jsonl"
        row = {"question": OPEN, "contexts": [text], "answer": text, "reference": "In 1931."}
        path.write_text(json.dumps(row | {"topic": text}))
        (one,) = read_golden(str(path))
    assert (one.question, one.reference, one.answer) == (OPEN, "In 1931.", None)
    assert (one.contexts, one.metadata) == (None, {})


@pytest.mark.parametrize(
    ("settings", "feedback", "answers"),
    [
        ({}, False, ["in 1931.", "Never."]),
        ({"sample_rate": 0.0, "tail": [{"metric": MATCH, "below": 0.5}]}, False, ["Never."]),
        ({"sample_rate": 0.0, "tail": [{"thumbs_down": True}]}, True, ["in 1931.", "Never."]),
    ],
)
def test_golden_reference_is_used_by_every_way_to_an_evaluation(
    settings: dict[str, Any], feedback: bool, answers: list[str], golden: str
) -> None:
    settings["tail"] = [rule | {"then": ["lexical"]} for rule in settings.get("tail", ())]
    memory = MemorySink()
    config = RagEvalConfig(references=golden, **settings)
    with RagEval("lexical", ScriptedJudge(), sinks=[memory], config=config) as evals:
        for answer in ("in 1931.", "Never."):
            one = Sample(question=OPEN.lower(), answer=answer)
            evals.submit(one)
            if feedback:
                assert evals.feedback(one.sample_id, score=0)
        assert evals.flush(300)
        inline = evals.evaluate(Sample(question=OPEN, answer="in 1931."))[MATCH]
        later = asyncio.run(evals.aevaluate(Sample(question=OPEN, answer="in 1931.")))[MATCH]
    assert [result.sample.answer for result in memory.results] == answers
    for result in memory.results:
        assert (result.sample.question_id, result.sample.reference) == ("7", "In 1931.")
        assert result.outcomes[MATCH].value == float(result.sample.answer == "in 1931.")
    assert inline.value == later.value == 1.0


@pytest.mark.parametrize(
    ("question", "answer", "reference", "value"),
    [
        ("Whom do I write to?", MAIL, "<EMAIL_1>", 1.0),
        ("Whom do I write to?", f"{OTHER} or {MAIL}", "<EMAIL_2>", 0.0),
        (f"Is {MAIL} the harbour master?", "Yes", "Yes, <EMAIL_1> is.", 0.0),
        (f"Is {OTHER} the harbour master?", "Yes", None, None),
    ],
)
def test_golden_question_is_matched_before_and_redacted_with_the_sample(
    question: str, answer: str, reference: str | None, value: float | None, golden: str
) -> None:
    memory = MemorySink()
    config = RagEvalConfig(references=golden)
    with RagEval([MATCH], sinks=[memory], redact="all", config=config) as evals:
        with evals.interaction(question) as it:
            it.contexts(["At the quay."])
            it.answer(answer)
        evals.submit(Sample(question=question, answer=answer))
        assert evals.flush(300)
    assert len(memory.results) == 2
    for result in memory.results:
        assert result.sample.reference == reference
        assert not {MAIL, OTHER} & set(repr(result.sample).replace("'", " ").split())
        assert result.outcomes[MATCH].value == value
