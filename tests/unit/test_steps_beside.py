"""Texts of steps count beside documents where the answer says what only they say."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import make_dataclass
from datetime import date
from decimal import Decimal
from typing import Any

import pytest
from pydantic import create_model

from rag_eval_hooks.capture.contexts import ContextSource, find_contexts
from rag_eval_hooks.capture.records import Origin, RunKind
from rag_eval_hooks.capture.replies import as_json
from rag_eval_hooks.capture.rows import lone_row, row_of, table_rows
from rag_eval_hooks.sample import Context
from tests.support.story import Story
from tests.support.variation import Variation, seeds

varied = pytest.mark.parametrize("seed", seeds(6))


def wrote(story: Story, *texts: str) -> None:
    """A step puts out texts."""
    step = story.run(f"step {texts}", story.root, RunKind.CHAIN)
    story.recorder.documents(step, [Context(text=text) for text in texts], Origin.STEP)
    story.recorder.end(step)


def found(documents: Sequence[str], step: Sequence[str], answer: str) -> list[str] | None:
    """Return the contexts of an answer to a prompt with documents and a step's texts."""
    story = Story()
    story.gave("r", *documents)
    wrote(story, *step)
    story.asked("m", "\n".join([*documents, *step]), answer)
    return story.contexts(answer)


def a_fact(drawn: Variation) -> tuple[str, str]:
    """Return a text of a step, and a few words that only it has."""
    fact = f"{drawn.chance.randint(1000, 9999)} {drawn.name()}"
    return f"{drawn.sentence()} {fact} {drawn.sentence()}", fact


@varied
def test_an_answer_of_words_that_only_a_step_has_rests_on_it(seed: int) -> None:
    """One or two words of an answer are enough where no document has them."""
    drawn = Variation(seed)
    documents, (text, fact) = drawn.passages(2), a_fact(drawn)
    assert found(documents, [text], fact) == [*documents, text]


@varied
def test_an_answer_in_the_words_of_a_step_rests_on_it(seed: int) -> None:
    """So are several words in a row of a long answer."""
    drawn = Variation(seed)
    documents, (text, _) = drawn.passages(2), a_fact(drawn)
    answer = f"{drawn.passage()} {text[: len(text) // 2]} {drawn.passage()}"
    assert found(documents, [text], answer) == [*documents, text]


@varied
def test_a_list_counts_as_a_whole(seed: int) -> None:
    """Rows beside the one that an answer names were retrieved with it."""
    drawn = Variation(seed)
    documents, rows = drawn.passages(2), [a_fact(drawn) for _ in range(3)]
    texts = [text for text, _ in rows]
    assert found(documents, texts, rows[1][1]) == [*documents, *texts]


@varied
def test_what_an_answer_does_not_say_is_no_context_beside_documents(seed: int) -> None:
    """A persona, an example, a rule: the prompt shows them, and no answer says them."""
    drawn = Variation(seed)
    documents = drawn.passages(2)
    assert found(documents, [drawn.passage()], documents[0][:30]) == documents
    assert found(documents, [drawn.passage()], drawn.sentence()) == documents


@varied
def test_what_documents_say_too_needs_no_step(seed: int) -> None:
    """A step that joins, numbers or cuts documents has found nothing."""
    drawn = Variation(seed)
    documents = drawn.passages(2)
    forms = (
        "\n".join(documents),
        f"[1] {documents[0][:60]}...",
        f"1. {documents[1]} ({drawn.word()})",
    )
    for form in forms:
        assert found(documents, [form], documents[1]) == documents


@pytest.mark.parametrize(
    "refusal", ["I do not know.", "I cannot answer that.", "Unable to answer."]
)
def test_a_refusal_rests_on_nothing(refusal: str) -> None:
    """A rule that words a refusal is no context of an answer that follows it."""
    documents = Variation(0).passages(2)
    rule = f"If the passages do not say it, answer: {refusal}"
    assert found(documents, [rule], refusal) == documents


@varied
def test_turns_and_queries_are_no_find(seed: int) -> None:
    """Neither what was said before nor what a retriever was asked becomes a context."""
    drawn = Variation(seed)
    documents, (text, fact) = drawn.passages(2), a_fact(drawn)
    turns = f"{drawn.chance.choice(['Human', 'user'])}: {drawn.question()}\nassistant: {text}"
    assert found(documents, [turns], fact) == documents
    story = Story()
    story.gave("r", *documents)
    story.root.interaction.runs[-1].query = text
    wrote(story, text)
    story.asked("m", "\n".join([*documents, text]), fact)
    assert story.contexts(fact) == documents


@varied
def test_the_source_says_that_a_step_wrote_some(seed: int) -> None:
    """A sample with a step's text is marked, and one without is not."""
    drawn = Variation(seed)
    documents, (text, fact) = drawn.passages(2), a_fact(drawn)
    for answer, source in ((fact, ContextSource.STEP), (documents[0], ContextSource.PROMPT)):
        story = Story()
        story.gave("r", *documents)
        wrote(story, text)
        story.asked("m", "\n".join([text, *documents]), answer)
        story.contexts(answer)
        assert find_contexts(story.ended[0], answer).source is source


@varied
def test_a_table_is_written_row_by_row(seed: int) -> None:
    """Rows with short values are contexts as they are written; very short ones as one text."""
    drawn = Variation(seed)
    keys = [drawn.name() for _ in range(3)]
    records = [(drawn.name(), drawn.chance.randint(1000, 9999), drawn.name()) for _ in range(3)]
    mappings = [dict(zip(keys, record, strict=True)) for record in records]
    for rows in (records, mappings):
        assert [c.text for c in table_rows(rows) or ()] == list(map(repr, rows))
    assert [c.text for c in table_rows(mappings, as_json) or ()] == list(map(as_json, mappings))
    short = [("a", n) for n in range(3)]
    assert [c.text for c in table_rows(short) or ()] == [repr(short)]


@varied
def test_what_is_no_table(seed: int) -> None:
    """Numbers alone, messages, texts and rows around one long text are read otherwise."""
    drawn = Variation(seed)
    text = drawn.passage()
    for items in (
        [[0.1, 0.2], [0.3, 0.4]],
        [{"role": "user", "content": drawn.word()}],
        drawn.passages(2),
        [{drawn.name(): text, "n": 1}],
        [(drawn.name(), text)],
        [],
    ):
        assert table_rows(items) is None


@varied
def test_a_row_has_one_main_text(seed: int) -> None:
    """The text under a usual name, else the longest; id, score and the rest stay with it."""
    drawn = Variation(seed)
    text, title, url = drawn.passage(), drawn.word(), f"https://{drawn.name()}"
    for name in ("snippet", "body", drawn.name()):
        row = row_of({"title": title, name: text, "url": url, "score": 0.5})
        assert row is not None
        assert (row.text, row.id, row.score, row.metadata["title"]) == (text, url, 0.5, title)
    assert row_of({"role": "user", "content": text}) is None
    assert row_of({drawn.name(): drawn.chance.randint(1, 9)}) is None


@varied
def test_rows_of_any_kind_are_read(seed: int) -> None:
    """Objects with fields, and rows of a cursor, which show no values themselves."""
    drawn = Variation(seed)
    names, values = [drawn.name() for _ in range(2)], (drawn.name(), drawn.chance.randint(1, 99))
    fields: Any = {names[0]: (str, ...), names[1]: (int, ...)}
    held = dict(zip(names, values, strict=True))
    for kind in (make_dataclass("Row", names), create_model("Row", **fields)):
        (row,) = table_rows([kind(**held)]) or ()
        assert (row.text, row.metadata) == (repr(kind(**held)), held)
    with closing(sqlite3.connect(":memory:")) as base:
        base.row_factory = sqlite3.Row
        found = base.execute(f"select ? as {names[0]}, ? as {names[1]}", values).fetchall()
    (row,) = table_rows(found) or ()
    assert (row.text, row.metadata) == (repr(held), held)


@varied
def test_a_record_by_itself_is_a_row(seed: int) -> None:
    """A mapping of short values is one; a container, a message and a long text are none."""
    drawn = Variation(seed)
    name = drawn.name()
    record = {name: drawn.name(), "price": Decimal("3.5"), "day": date(2026, 3, 17)}
    assert [row.text for row in lone_row(record) or ()] == [repr(record)]
    for other in (
        {name: [drawn.passage()], "price": 1},
        {"role": "user", "content": drawn.name()},
        {name: drawn.passage(), "price": 1},
        (drawn.name(), 1),
        {"n": 1},
    ):
        assert lone_row(other) is None


@varied
def test_a_number_is_no_row(seed: int) -> None:
    """A row of one value is known as it is written, not by its value wherever it stands."""
    drawn = Variation(seed)
    documents, number = drawn.passages(2), drawn.chance.randint(1000, 9999)
    for shown in (f"Order {number} follows.", f"[({number},)]"):
        story = Story()
        story.gave("r", *documents)
        wrote(story, f"[({number},)]")
        story.asked("m", "\n".join([*documents, shown]), str(number))
        is_row = shown.startswith("[")
        assert story.contexts(str(number)) == [*documents, *[shown] * is_row]


@varied
def test_words_of_an_instruction_are_no_row(seed: int) -> None:
    """A prompt that names values of a record which the answer does not say was not shown it."""
    drawn = Variation(seed)
    documents, number = drawn.passages(2), drawn.chance.randint(1000, 9999)
    one, other, last = (drawn.name() for _ in range(3))
    record = repr({drawn.name(): value for value in (number, one, other, last)})
    story = Story()
    story.gave("r", *documents)
    wrote(story, record)
    story.asked("m", "\n".join([*documents, f"Always in {one} per {other}."]), str(number))
    assert story.contexts(str(number)) == documents


@varied
def test_what_a_grader_took_out_does_not_come_back_with_its_words(seed: int) -> None:
    """A prompt that quotes a grader's reason shows what the grader let pass, and no more."""
    drawn = Variation(seed)
    kept, dropped = documents = drawn.passages(2)
    reason, answer = drawn.sentence(), drawn.sentence()
    story = Story()
    story.gave("r", *documents)
    story.asked("grader", f"Of use? {kept} {dropped}", reason)
    story.gave("grade", kept, kind="chain")
    story.asked("m", f"{kept}\nBecause: {reason}", answer)
    assert story.contexts(answer) == [kept]


@varied
def test_letters_of_any_case_are_the_same_beside_any_script(seed: int) -> None:
    """A text that a formatter altered is known in a prompt with letters that ASCII lacks."""
    drawn = Variation(seed)
    words = [drawn.name().title() for _ in range(12)]
    text, altered = " ".join(words), " ".join(words[2:]).upper()
    for other in ("é", "İ", "水"):
        story = Story()
        story.gave("r", text)
        story.asked("m", f"{other} {altered}", "yes, indeed")
        assert story.contexts("yes, indeed") == [text]
