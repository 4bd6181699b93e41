"""Records: one object of short values, nested or not, is one context as the model was shown it."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.messages import HumanMessage

from rag_eval_hooks.capture.replies import main_part
from rag_eval_hooks.capture.rows import lone_row
from tests.support.records import as_object, drawn_record
from tests.support.variation import Variation, seeds

varied = pytest.mark.parametrize("seed", seeds(6))


@varied
def test_a_nested_record_is_one_context(seed: int) -> None:
    """The context is the whole record as it is written, with all that is nested in it."""
    drawn = Variation(seed)
    record = drawn_record(drawn)
    for item in (record, as_object(record, drawn)):
        texts = [context.text for context in lone_row(item) or ()]
        assert texts == [repr(item)]


@varied
def test_what_holds_documents_is_no_record(seed: int) -> None:
    """Long texts, hits, a long table, vectors, documents, messages, and what is odd."""
    drawn = Variation(seed)
    name, more, values = drawn.name(), drawn.name(), drawn_record(drawn)
    hit = {"url": drawn.name(), "snippet": drawn.passage()}
    rows = [{"a": drawn.name(), "b": n} for n in range(99)]
    for held in (
        {name: drawn.passage(), more: drawn.passage()},
        {name: [drawn.passage()], more: values},
        {name: [hit], more: values},
        {name: {more: [hit]}, more: values},
        {name: rows, more: 9},
        {name: [0.5] * 99, more: values},
        {name: Document(drawn.name()), more: values},
        {name: HumanMessage(drawn.name()), more: values},
        {name: {"role": "user", "content": drawn.name()}, more: values},
        {name: object(), more: values},
        {},
    ):
        assert lone_row(held) is None


def test_a_record_without_an_end_is_none() -> None:
    """One that holds itself, once or often, directly or below: found at once, and no record."""
    endless: dict[str, Any] = {"name": "a value of a record"}
    endless["again"] = endless
    branching: dict[str, Any] = {f"a{n}": f"a value {n}" for n in range(9)}
    branching |= {f"b{n}": branching for n in range(40)}
    tree: dict[str, Any] = {"name": "the root of a tree"}
    tree["children"] = {f"c{n}": {"name": f"child {n}", "parent": tree} for n in range(40)}
    for held in (endless, branching, tree):
        assert lone_row(held) is None


@varied
def test_of_a_reply_what_holds_documents_is_kept(seed: int) -> None:
    """Counts and pages go; rows, texts and lists beside documents stay."""
    drawn = Variation(seed)
    hits: dict[str, Any] = {drawn.name(): [{"snippet": drawn.passage(), "url": drawn.name()}]}
    rows, text = [{drawn.name(): 5, drawn.name(): drawn.name()}], drawn.sentence(5)
    counts: dict[str, Any] = {drawn.name(): {drawn.name(): 3, drawn.name(): drawn.name()}}
    held = {"hits": {**counts, **hits}, "rows": rows, "text": text, **counts}
    assert main_part(held) == {"hits": hits, "rows": rows, "text": text}
    assert main_part(counts) == counts


@varied
def test_a_record_with_a_description_stays_whole(seed: int) -> None:
    """A long text that is the lesser part of it is no document by itself."""
    drawn = Variation(seed)
    text = "".join(drawn.chance.choices("abcdef ", k=50))
    fields = {drawn.name(): drawn.name() for _ in range(drawn.chance.randint(0, 90))}
    record = {drawn.name(): text, **fields, **drawn_record(drawn, 3)}
    texts = [context.text for context in lone_row(record) or ()]
    assert texts == [repr(record)]
