"""Golden questions lend their references to requests that ask the same."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from rag_eval_hooks import ConfigError, JudgeError, NotScored, RagEval, RagEvalConfig, Sample, Score
from rag_eval_hooks.evaluation.golden_references import Golden, References, read_golden
from rag_eval_hooks.incidents import Incidents
from rag_eval_hooks.testing import MemorySink, ScriptedJudge

MATCH = "lexical.exact_match"


class Embedder:
    """Vectors by the words that a text holds; notes what it was asked for."""

    name = "words"

    def __init__(self) -> None:
        self.asked: list[list[str]] = []
        self.broken = False

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        self.asked.append(list(texts))
        await asyncio.sleep(0)
        if self.broken:
            raise JudgeError("down")
        words = ("quay", "open", "ferry", "fare")
        return [[float(text.lower().count(word)) for word in words] for text in texts]

    async def aclose(self) -> None:
        """Holds nothing."""


GOLDEN = (
    Golden("When did the quay open?", "In 1931.", "Q1"),
    Golden("What is the ferry fare?", "Two crowns.", "Q2"),
)


def store(**options: Any) -> References:
    return References(GOLDEN, **{"incidents": Incidents(), **options})


@pytest.mark.parametrize(
    "question",
    ["When did the quay open?", "  when DID the\n quay  open? ", "WHEN DID THE QUAY OPEN?"],
)
def test_equal_questions_lend_the_reference(question: str) -> None:
    """White space and case aside, the same question has the same right answer; it says so."""
    told = store().equal(Sample(question=question, metadata={"k": 1}))
    assert (told.reference, told.question_id) == ("In 1931.", "Q1")
    assert told.metadata == {"k": 1, "reference_match": "exact"}


def test_nothing_is_lent_to_other_questions() -> None:
    """Without a threshold only equal questions count; a sample's own reference stays."""
    other = Sample(question="When did the quay close?")
    assert store().equal(other) is other
    own = Sample(question="When did the quay open?", reference="Never.")
    assert store().equal(own) is own


async def test_similar_questions_lend_the_most_similar_reference() -> None:
    """Above the threshold the closest golden question counts, and its cosine is told."""
    embedder = Embedder()
    golden = store(threshold=0.8, embedder=embedder)
    told = await golden.alike(Sample(question="open quay, and open again"))
    assert (told.reference, told.metadata["reference_match"]) == ("In 1931.", "embedding")
    assert told.metadata["reference_similarity"] == pytest.approx(3 / math.sqrt(10), abs=1e-6)
    far = Sample(question="quay fare")
    assert await golden.alike(far) is far


async def test_golden_questions_are_embedded_once() -> None:
    """Samples that come at once embed the golden questions with one request."""
    embedder = Embedder()
    golden = store(threshold=0.8, embedder=embedder)
    some = [Sample(question=f"quay open {n}") for n in range(5)]
    told = await asyncio.gather(*map(golden.alike, some))
    assert {one.reference for one in told} == {"In 1931."}
    assert sum(len(texts) == 2 for texts in embedder.asked) == 1


async def test_a_question_like_no_other_gets_none() -> None:
    """A vector without a direction is like nothing."""
    none = Sample(question="hello")
    assert await store(threshold=0.01, embedder=Embedder()).alike(none) is none


async def test_a_failing_embedder_lends_nothing_and_is_left_alone_for_a_while() -> None:
    """A failing embedder is counted; its sample lacks a reference, later ones may get theirs."""
    incidents, embedder, now = Incidents(), Embedder(), [0.0]
    golden = store(threshold=0.8, embedder=embedder, incidents=incidents, clock=lambda: now[0])
    one = Sample(question="quay open")
    embedder.broken = True
    assert await golden.alike(one) is one
    embedder.broken = False
    assert await golden.alike(one) is one
    assert len(embedder.asked) == 1
    assert incidents.counts() == {"references: JudgeError": 1}
    now[0] = 31.0
    assert (await golden.alike(one)).reference == "In 1931."


async def test_a_long_file_is_embedded_by_as_many_samples_as_it_takes() -> None:
    """Vectors made before a sample's time ran out are kept: nothing is embedded twice."""

    class Slow(Embedder):
        calls = 0

        async def embed(self, texts: Sequence[str]) -> list[list[float]]:
            self.calls += len(texts) > 1
            if len(texts) > 1 and self.calls % 2 == 0:
                await asyncio.sleep(60)
            return await super().embed(texts)

    embedder = Slow()
    many = [Golden(f"quay {n}", "In 1931.") for n in range(1000)]
    golden = References(many, threshold=0.5, embedder=embedder, timeout=1.5, incidents=Incidents())
    one = Sample(question="quay open quay")
    told = [await golden.alike(one) for _ in range(5)]
    assert told[0].reference is None
    assert told[-1].reference == "In 1931."
    asked = [text for texts in embedder.asked if len(texts) > 1 for text in texts]
    assert len(asked) == len(set(asked)) == len(many)


async def test_too_few_vectors_lend_nothing() -> None:
    """An embedder that leaves some out would have every later question lend a wrong answer."""

    class Short(Embedder):
        async def embed(self, texts: Sequence[str]) -> list[list[float]]:
            return (await super().embed(texts))[-1:]

    incidents = Incidents()
    golden = store(threshold=0.5, embedder=Short(), incidents=incidents)
    one = Sample(question="ferry fare")
    assert await golden.alike(one) is one
    assert incidents.counts() == {"references: JudgeError": 1}


async def test_an_embedder_that_hangs_is_not_waited_for() -> None:
    """Past its time a sample goes on without a reference."""

    class Hanging(Embedder):
        async def embed(self, texts: Sequence[str]) -> list[list[float]]:
            await asyncio.sleep(60)
            return []

    incidents = Incidents()
    golden = store(threshold=0.8, embedder=Hanging(), timeout=0.05, incidents=incidents)
    one = Sample(question="quay open")
    assert await golden.alike(one) is one
    assert incidents.counts() == {"references: TimeoutError": 1}


def test_reference_metrics_run_on_golden_questions(tmp_path: Path) -> None:
    """Online and inline, a canary question is scored against its reference, by both ways."""
    path = tmp_path / "golden.jsonl"
    path.write_text('{"question": "When did the quay open?", "answer": "In 1931.", "id": 7}\n')
    config = RagEvalConfig(references=str(path), references_threshold=0.9)
    memory = MemorySink()
    evals = RagEval(MATCH, ScriptedJudge(), sinks=[memory], config=config, embedder=Embedder())
    questions = ("when did the quay open?", "The quay: open since?", "Who are you?")
    for question in questions:
        evals.offer(Sample(question=question, answer="in 1931."))
    evals.flush(300)
    first, second, third = (result.outcomes[MATCH] for result in memory.results)
    assert isinstance(first, Score)
    assert isinstance(second, Score)
    assert isinstance(third, NotScored)
    assert first.value == second.value == 1.0
    assert third.cause == "missing_input"
    ways = [result.sample.metadata.get("reference_match") for result in memory.results]
    assert ways == ["exact", "embedding", None]
    assert memory.results[0].sample.question_id == "7"
    assert evals.evaluate(Sample(question=questions[1], answer="in 1931."))[MATCH] == second
    evals.shutdown()


def test_a_golden_reference_serves_the_cheap_stage(tmp_path: Path) -> None:
    """A tail rule can look at a metric that needs the reference of an equal question."""
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
    """Both forms, with a byte order mark and blank lines, give the same questions."""
    one, other = tmp_path / "a.CSV", tmp_path / "a.jsonl"
    one.write_text('question_id,question,ground_truth\nQ1,"a,\nb",c\n,d,e\n', encoding="utf-8-sig")
    other.write_text(
        '{"question_id": "Q1", "question": "a,\\nb", "reference": "c"}\n\n'
        '{"question": "d", "answer": "e", "difficulty": 3}\n'
    )
    assert read_golden(str(one)) == read_golden(str(other))
    assert read_golden(str(one))[1] == Golden("d", "e")


def test_what_a_pipeline_answered_is_no_reference(tmp_path: Path) -> None:
    """In a file of results the truth counts, wherever it stands beside an answer."""
    path = tmp_path / "results.csv"
    path.write_text("question,answer,ground_truth\nq,wrong,right\n")
    assert read_golden(str(path)) == (Golden("q", "right"),)


@pytest.mark.parametrize(
    "text",
    ["", "[]\n", "no json\n", '{"question": "q"}\n', '{"question": " ", "answer": "a"}\n'],
)
def test_a_file_without_golden_questions_is_refused_at_start(text: str, tmp_path: Path) -> None:
    """A line that lacks a question or a reference is an error that names the line."""
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
    """A field past the limit of CSV, another header, or JSON that is too deep is an error too."""
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(ConfigError, match=rf"{name}:\d") as caught:
        read_golden(str(path))
    assert caught.value.field == "references"


def test_likeness_needs_an_embedder(tmp_path: Path) -> None:
    """A threshold that nothing can be measured by is an error at start-up."""
    path = tmp_path / "golden.jsonl"
    path.write_text('{"question": "q", "answer": "a"}\n')
    config = RagEvalConfig(references=str(path), references_threshold=0.9, embedder="none")
    with pytest.raises(ConfigError, match="references_threshold"):
        RagEval(config=config)
    with pytest.raises(ConfigError, match="references"):
        RagEval(config=RagEvalConfig(references=str(tmp_path / "none.jsonl")))


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
    """An address in a golden reference leaves no more than one in an answer, and compares right."""
    question = "Whom do I write to?"
    sample, score = lent(tmp_path, Sample(question=question, answer=answer, contexts=(OTHER,)))  # type: ignore[arg-type]
    assert MAIL not in repr(sample)
    assert OTHER not in repr(sample)
    assert sample.metadata["reference_match"] == "exact"
    assert score.value == value


def test_golden_questions_are_known_before_they_are_redacted(tmp_path: Path) -> None:
    """A question about one person gets the answer about that one, and about another none."""
    sample, score = lent(tmp_path, Sample(question=f"Is {MAIL} the harbour master?", answer="Yes"))
    assert sample.question == "Is <EMAIL_1> the harbour master?"
    assert sample.reference == "Yes, <EMAIL_1> is."
    sample, score = lent(tmp_path, Sample(question=f"Is {OTHER} the harbour master?", answer="Yes"))
    assert sample.reference is None
    assert isinstance(score, NotScored)


def test_a_captured_question_is_known_too(tmp_path: Path) -> None:
    """Captured questions get their references as offered samples do."""
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


async def test_private_golden_questions_are_neither_embedded_nor_lent_by_likeness(
    tmp_path: Path,
) -> None:
    """The embedder sees nothing that redaction takes out, and what it would divide is not lent."""
    embedder = Embedder()
    config = RagEvalConfig(references=private(tmp_path), references_threshold=0.5)
    with RagEval([MATCH], embedder=embedder, redact="all", config=config) as evals:
        told = await evals.aevaluate(Sample(question="When is the quay open?", answer="At 8."))
        assert isinstance(told[MATCH], Score)
    assert embedder.asked[0] == ["When does the quay open?"]


@pytest.mark.parametrize("question", ["When did the quay open?", "The quay: open since?"])
def test_a_thumb_down_on_a_golden_question_has_its_reference(tmp_path: Path, question: str) -> None:
    """Evaluations that feedback asks for get references in both ways."""
    path = tmp_path / "golden.jsonl"
    path.write_text('{"question": "When did the quay open?", "answer": "In 1931."}\n')
    config = RagEvalConfig(
        references=str(path),
        references_threshold=0.9,
        sample_rate=0.0,
        tail=[{"thumbs_down": True, "then": ["lexical"]}],
    )
    memory = MemorySink()
    sample = Sample(question=question, answer="in 1931.")
    with RagEval(
        MATCH, ScriptedJudge(), sinks=[memory], config=config, embedder=Embedder()
    ) as evals:
        evals.offer(sample)
        evals.feedback(sample.sample_id, score=0)
        assert evals.flush(300)
    (result,) = memory.results
    assert isinstance(result.outcomes[MATCH], Score)
    assert result.sample.reference == "In 1931."
