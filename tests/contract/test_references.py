"""Golden questions lend their references to requests that ask the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rag_eval_hooks import ConfigError, NotScored, RagEval, RagEvalConfig, Sample, Score
from rag_eval_hooks.evaluation.golden_references import Golden, References, read_golden
from rag_eval_hooks.testing import MemorySink, ScriptedJudge

MATCH = "lexical.exact_match"


GOLDEN = (
    Golden("When did the quay open?", "In 1931.", "Q1"),
    Golden("What is the ferry fare?", "Two crowns.", "Q2"),
)


def store(**options: Any) -> References:
    return References(GOLDEN, **options)


@pytest.mark.parametrize(
    "question",
    ["When did the quay open?", "  when DID the\n quay  open? ", "WHEN DID THE QUAY OPEN?"],
)
def test_equal_questions_lend_the_reference(question: str) -> None:
    told = store().equal(Sample(question=question, metadata={"k": 1}))
    assert (told.reference, told.question_id) == ("In 1931.", "Q1")
    assert told.metadata == {"k": 1, "reference_match": "exact"}


def test_nothing_is_lent_to_other_questions() -> None:
    other = Sample(question="When did the quay close?")
    assert store().equal(other) is other
    own = Sample(question="When did the quay open?", reference="Never.")
    assert store().equal(own) is own


def test_reference_metrics_run_on_golden_questions(tmp_path: Path) -> None:
    path = tmp_path / "golden.jsonl"
    path.write_text('{"question": "When did the quay open?", "answer": "In 1931.", "id": 7}\n')
    memory = MemorySink()
    config = RagEvalConfig(references=str(path))
    with RagEval(MATCH, ScriptedJudge(), sinks=[memory], config=config) as evals:
        for question in ("when did the quay open?", "Who are you?"):
            evals.offer(Sample(question=question, answer="in 1931."))
        assert evals.flush(300)
        first, second = (result.outcomes[MATCH] for result in memory.results)
        assert isinstance(first, Score)
        assert isinstance(second, NotScored)
        assert (first.value, second.cause) == (1.0, "missing_input")
        assert memory.results[0].sample.question_id == "7"
        assert memory.results[0].sample.metadata["reference_match"] == "exact"
        inline = evals.evaluate(Sample(question="When did the quay open?", answer="in 1931."))
        assert inline[MATCH] == first


def test_a_golden_reference_serves_the_cheap_stage(tmp_path: Path) -> None:
    path = tmp_path / "golden.csv"
    path.write_text('question,reference\n"When, and why?","In 1931, for ""trade""."\n')
    config = RagEvalConfig(
        references=str(path),
        sample_rate=0.0,
        tail=[{"metric": MATCH, "below": 0.5, "then": ["lexical"]}],
    )
    memory = MemorySink()
    evals = RagEval("lexical", ScriptedJudge(), sinks=[memory], config=config)
    evals.offer(Sample(question="when, and why?", answer='In 1931, for "trade".'))
    evals.offer(Sample(question="when, and why?", answer="No idea."))
    evals.flush(300)
    assert [result.sample.answer for result in memory.results] == ["No idea."]
    evals.shutdown()


def test_csv_and_json_lines_say_the_same(tmp_path: Path) -> None:
    one, other = tmp_path / "a.CSV", tmp_path / "a.jsonl"
    one.write_text('question_id,question,ground_truth\nQ1,"a,\nb",c\n,d,e\n', encoding="utf-8-sig")
    other.write_text(
        '{"question_id": "Q1", "question": "a,\\nb", "reference": "c"}\n\n'
        '{"question": "d", "answer": "e", "difficulty": 3}\n'
    )
    assert read_golden(str(one)) == read_golden(str(other))
    assert read_golden(str(one))[1] == Golden("d", "e")


def test_ground_truth_wins_over_answer_column(tmp_path: Path) -> None:
    path = tmp_path / "results.csv"
    path.write_text("question,answer,ground_truth\nq,wrong,right\n")
    assert read_golden(str(path)) == (Golden("q", "right"),)


@pytest.mark.parametrize(
    "text",
    ["", "[]\n", "no json\n", '{"question": "q"}\n', '{"question": " ", "answer": "a"}\n'],
)
def test_a_file_without_golden_questions_is_refused_at_start(text: str, tmp_path: Path) -> None:
    path = tmp_path / "golden.jsonl"
    path.write_text(text)
    with pytest.raises(ConfigError, match=r"golden\.jsonl") as caught:
        RagEval(config=RagEvalConfig(references=str(path), embedder="none"))
    assert caught.value.field == "references"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("golden.csv", f"question,reference\nq,{'x' * 200_000}\n"),
        ("golden.csv", "question;reference\nq;a\n"),
        ("golden.csv", "Question,Reference\nq,a\n"),
        ("golden.csv", "\n\n"),
        ("golden.jsonl", "[" * 100_000),
    ],
)
def test_a_line_that_no_parser_takes_is_named(name: str, text: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(ConfigError, match=rf"{name}:\d") as caught:
        read_golden(str(path))
    assert caught.value.field == "references"


MAIL, OTHER = "ada@varne.example", "bob@varne.example"
PRIVATE = (
    '{"question": "Whom do I write to?", "reference": "ADA"}\n'
    '{"question": "Is ADA the harbour master?", "reference": "Yes, ADA is."}\n'
    '{"question": "When does the quay open?", "reference": "At 8.", "question_id": "Q3"}\n'
)


def private(tmp_path: Path) -> str:
    path = tmp_path / "golden.jsonl"
    path.write_text(PRIVATE.replace("ADA", MAIL))
    return str(path)


def lent(tmp_path: Path, sample: Sample) -> tuple[Sample, Any]:
    memory = MemorySink()
    config = RagEvalConfig(references=private(tmp_path))
    with RagEval([MATCH], sinks=[memory], redact="all", config=config) as evals:
        evals.offer(sample)
        assert evals.flush(300)
    (result,) = memory.results
    return result.sample, result.outcomes[MATCH]


@pytest.mark.parametrize(("answer", "value"), [(MAIL, 1.0), (OTHER, 0.0)])
def test_lent_references_are_redacted_with_the_sample(
    tmp_path: Path, answer: str, value: float
) -> None:
    question = "Whom do I write to?"
    sample, score = lent(tmp_path, Sample(question=question, answer=answer, contexts=(OTHER,)))  # type: ignore[arg-type]
    assert MAIL not in repr(sample)
    assert OTHER not in repr(sample)
    assert sample.metadata["reference_match"] == "exact"
    assert score.value == value


def test_golden_questions_are_known_before_they_are_redacted(tmp_path: Path) -> None:
    sample, score = lent(tmp_path, Sample(question=f"Is {MAIL} the harbour master?", answer="Yes"))
    assert sample.question == "Is <EMAIL_1> the harbour master?"
    assert sample.reference == "Yes, <EMAIL_1> is."
    sample, score = lent(tmp_path, Sample(question=f"Is {OTHER} the harbour master?", answer="Yes"))
    assert sample.reference is None
    assert isinstance(score, NotScored)


def test_a_captured_question_is_known_too(tmp_path: Path) -> None:
    memory = MemorySink()
    config = RagEvalConfig(references=private(tmp_path))
    with RagEval([MATCH], sinks=[memory], redact="all", config=config) as evals:
        with evals.interaction("Whom do I write to?") as it:
            it.answer(f"{OTHER} or {MAIL}")
        assert evals.flush(300)
        assert (
            evals.evaluate(Sample(question="Whom do I write to?", answer=MAIL))[MATCH] is not None
        )
    (result,) = memory.results
    assert (result.sample.answer, result.sample.reference) == (
        "<EMAIL_1> or <EMAIL_2>",
        "<EMAIL_2>",
    )


def test_a_thumb_down_on_a_golden_question_has_its_reference(tmp_path: Path) -> None:
    path = tmp_path / "golden.jsonl"
    path.write_text('{"question": "When did the quay open?", "answer": "In 1931."}\n')
    config = RagEvalConfig(
        references=str(path),
        sample_rate=0.0,
        tail=[{"thumbs_down": True, "then": ["lexical"]}],
    )
    memory = MemorySink()
    sample = Sample(question="When did the quay open?", answer="in 1931.")
    with RagEval(MATCH, ScriptedJudge(), sinks=[memory], config=config) as evals:
        evals.offer(sample)
        evals.feedback(sample.sample_id, score=0)
        assert evals.flush(300)
    (result,) = memory.results
    assert isinstance(result.outcomes[MATCH], Score)
    assert result.sample.reference == "In 1931."
