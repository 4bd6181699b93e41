"""Which answers say that they do not know."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_eval_hooks import RagEval, Sample, Score
from rag_eval_hooks.metrics.options import PHRASES, DontKnow, dont_know_phrase
from rag_eval_hooks.score import Cause
from rag_eval_hooks.text.folding import fold

DATA = Path(os.environ.get("LABELED_DATA", Path(__file__).parents[3] / "shared/data"))
PLACES = (DATA / "open/refusals.jsonl", DATA / "refusals.jsonl")
LABELLED = next((place for place in PLACES if place.is_file()), None)


def refuses(answer: str) -> bool:
    return dont_know_phrase(answer, DontKnow.REFUSAL) is not None


def holds_phrase(answer: str) -> bool:
    return dont_know_phrase(answer, DontKnow.PHRASES) is not None


@given(st.sampled_from(PHRASES), st.text(max_size=30), st.text(max_size=30))
def test_phrases_are_substrings(phrase: str, before: str, after: str) -> None:
    assert holds_phrase(f"{before} {phrase.upper()} {after}")


@pytest.mark.parametrize(
    ("answer", "refused"),
    [*((short, True) for short in ("None", " n/a ", "NULL", "none."))]
    + [(longer, False) for longer in ("None of them did", "December", "", "nothing at all")],
)
def test_a_short_none_refuses_and_a_longer_one_answers(answer: str, refused: bool) -> None:
    assert holds_phrase(answer) is refused
    assert refuses(answer) is refused


REFUSING = [
    "I don't know.",
    "I don\N{RIGHT SINGLE QUOTATION MARK}t know the answer to that.",
    "Unknown.",
    "I'm not sure.",
    "Sorry, I cannot answer this question.",
    "Based on the context, I cannot determine who wrote it.",
    "There is no information about this in the documents.",
    "The provided context does not mention the price. Therefore, I am unable to answer.",
    "I don't have enough information to answer. Please share the document.",
    "Insufficient data",
    "The answer is not available.",
    "It is unclear from the passages whether she ever returned.",
    "This information is not available in the provided context.",
    "I'm sorry, but that is not covered by the documents.",
    "I don't have that information.",
    "I have no information about that.",
    "Sorry, I can't help with that.",
    "There's nothing about this in the handbook.",
]
ANSWERING = [
    "The Tomb of the Unknown Soldier is in Arlington.",
    "She died of unknown causes.",
    "The author is unknown, but the poem dates from the tenth century.",
    "It is not available in paperback; it came out in cloth in 2004.",
    "This is not covered by the guarantee.",
    "This information is not available to guests, but members find it on the last page.",
    "He told the court that he was not sure whether the door was locked.",
    "The film is not available on streaming services; it came out on DVD in 2004.",
    "I'm not sure, but I think that it was 1990.",
    "I cannot determine the exact year. However, it was built between 1880 and 1890.",
    "It is not possible to recover the files without a backup.",
    "1. Press reset.\n2. Hold the key.\n3. Wait.\nUnable to answer based on given passages.",
    "“I do not know,” said Alice, and she went through the door.",
]


@pytest.mark.parametrize("answer", [*REFUSING, *ANSWERING])
def test_answer_refuses_if_its_main_clause_does(answer: str) -> None:
    assert refuses(answer) is (answer in REFUSING)


@given(st.text(alphabet=st.sampled_from("i cannot know,.;: but*-\n1"), max_size=400))
def test_every_text_is_judged(answer: str) -> None:
    words = dont_know_phrase(answer, DontKnow.REFUSAL)
    assert words is None or words in fold(answer)


@pytest.mark.skipif(LABELLED is None, reason="labelled data: set LABELED_DATA")
def test_on_labelled_answers() -> None:
    assert LABELLED is not None
    rows = [json.loads(line) for line in LABELLED.read_text("utf-8").splitlines()]
    labelled = [(row["answer"], row["labels"]["dont_know"]) for row in rows]
    labelled = [(answer, label) for answer, label in labelled if label is not None]
    assert len(labelled) == 239
    for rule, precision, recall in ((refuses, 0.98, 0.94), (holds_phrase, 0.28, 0.52)):
        found = [label for answer, label in labelled if rule(answer)]
        assert sum(found) / len(found) >= precision
        assert sum(found) / sum(label for _, label in labelled) >= recall


@pytest.mark.parametrize(
    "answer", ["I don't know.", "Die Antwort ist nicht bekannt.", "No se sabe."]
)
def test_a_refusal_says_nothing_of_retrieval(answer: str) -> None:
    sample = Sample(question="When did it open?", contexts=["It has three doors."], answer=answer)  # type: ignore[arg-type]
    names = ("ragas.context_precision", "ragas.context_precision_without_reference")
    with RagEval(names, embedder="none") as evals:
        refused = evals.evaluate(sample)
        judged = evals.evaluate(replace(sample, reference="It opened in 1990."))
    assert [refused[name].cause for name in names] == [Cause.UNDEFINED] * 2  # type: ignore[union-attr]
    assert isinstance(judged[names[0]], Score)
