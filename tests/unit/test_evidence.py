"""What counts as evidence: by the kind of tool, by who wrote it, by what the answer takes."""

from __future__ import annotations

import json

import pytest

from rag_eval_hooks.capture import RunKind
from rag_eval_hooks.capture.answer import answer_of
from rag_eval_hooks.capture.contexts import ContextSource, Found, find_contexts, has_retrieved
from rag_eval_hooks.capture.records import Interaction, Origin, Run
from rag_eval_hooks.capture.text_forms import fold
from rag_eval_hooks.capture.tool_kinds import ToolKind, reports_nothing, tool_kind
from rag_eval_hooks.sample import Context
from tests.support.story import Story
from tests.support.variation import Variation, seeds

varied = pytest.mark.parametrize("seed", seeds(9))


def tool(story: Story, name: str, text: str, *, description: str = "", query: str = "") -> Run:
    run = story.run(name, story.root, RunKind.TOOL)
    run.description, run.query = description, json.dumps({"query": query})
    story.recorder.documents(run, [Context(text=text)], Origin.TEXT)
    story.recorder.end(run)
    return run


def ended(story: Story, answer: str) -> Interaction:
    story.root.text = answer
    story.recorder.end(story.root)
    return story.root.interaction


def found(story: Story, answer: str) -> tuple[list[str] | None, ContextSource | None]:
    contexts: Found = find_contexts(ended(story, answer), answer)
    texts = None if contexts.contexts is None else [c.text for c in contexts.contexts]
    return texts, contexts.source


@pytest.mark.parametrize(
    ("name", "description", "kind"),
    [
        ("search_docs", "", ToolKind.LOOKUP),
        ("getRefundPolicy", "", ToolKind.LOOKUP),
        ("order_status", "", ToolKind.LOOKUP),
        ("book_search", "", ToolKind.LOOKUP),
        ("get_weather_today", "", ToolKind.LOOKUP),
        ("xy", "Searches the handbook. Books nothing.", ToolKind.LOOKUP),
        ("xy", "xy(query: str) -> str\nUseful for questions about fares.", ToolKind.LOOKUP),
        ("xy", "\u5728\u624b\u518c\u4e2d\u641c\u7d22", ToolKind.LOOKUP),
        ("book_room", "Finds nothing.", ToolKind.ACTION),
        ("send_mail", "", ToolKind.ACTION),
        ("get_current_time", "", ToolKind.ACTION),
        ("transfer_to_writer", "", ToolKind.ACTION),
        ("xy", "Calculates the sum of two numbers.", ToolKind.ACTION),
        ("xy", "", ToolKind.UNKNOWN),
    ],
)
def test_tool_kind_reads_name_then_description(name: str, description: str, kind: ToolKind) -> None:
    assert tool_kind(name, description) is kind


@pytest.mark.parametrize(
    ("text", "is_nothing"),
    [
        ("No results found for ferry.", True),
        ("Error: connection refused by host-7", True),
        ("HTTP 503 Service Unavailable", True),
        ("Keine Ergebnisse gefunden.", True),
        ("\u6ca1\u6709\u627e\u5230\u76f8\u5173\u5185\u5bb9", True),
        ("No dogs are allowed on the ferry to Skarn.", False),
        ("The error rate of the pump is 4 percent.", False),
        ("Ferry to Skarn: 42 euro.", False),
    ],
)
def test_reports_nothing_leaves_facts(text: str, is_nothing: bool) -> None:
    words = fold(text).lower().replace(".", "").replace(":", "").split()
    known = {"the", "to", "of", "is", "are", "on", "for", "ferry", "by", "a"}
    assert reports_nothing(words, known, text) is is_nothing


@varied
def test_lookup_that_restates_its_arguments_is_evidence(seed: int) -> None:
    drawn = Variation(seed)
    query = drawn.sentence(drawn.chance.randint(4, 9))[:-5]
    text = f"{query} {drawn.chance.randint(10, 99)}"
    story = Story()
    tool(story, drawn.name(), text, description="Searches.", query=query)
    answer = drawn.sentence()
    story.asked("m", f"{text}\n{drawn.question()}", answer)
    assert found(story, answer) == ([text], ContextSource.PROMPT)


@varied
def test_tool_of_unknown_kind_counts_for_what_the_answer_takes(seed: int) -> None:
    drawn = Variation(seed)
    text = drawn.passage()
    for answer, is_used in ((text[: len(text) // 2], True), (drawn.sentence(), False)):
        story = Story()
        tool(story, drawn.name(), text)
        story.asked("m", f"{text}\n{drawn.question()}", answer)
        assert has_retrieved(ended(story, answer), answer) is is_used


@varied
def test_text_that_stands_twice_has_its_first_place(seed: int) -> None:
    drawn = Variation(seed)
    one, two = drawn.passages(2)
    story = Story()
    story.gave("r", one, two)
    story.asked("m", f"{two}\n{one}\n{two}", "yes, indeed")
    assert found(story, "yes, indeed")[0] == [two, one]


@varied
def test_earlier_turn_is_evidence_if_the_answer_takes_from_it(seed: int) -> None:
    drawn = Variation(seed)
    document, before = drawn.passages(2)
    for answer, expected in (
        (document[: len(document) // 2], ([document], ContextSource.PROMPT)),
        (before[: len(before) // 2], ([document, before], ContextSource.EARLIER_TURN)),
    ):
        story = Story()
        story.gave("r", document)
        story.asked("m", document, answer)
        model = story.root.interaction.runs[-1]
        model.prompt = (document, drawn.question(), before, drawn.question())
        model.earlier = (2,)
        texts, source = found(story, answer)
        assert ([t for t in texts or () if t in (document, before)], source) == expected


@varied
def test_summary_that_quotes_the_answer_is_not_the_answer(seed: int) -> None:
    drawn = Variation(seed)
    answer, label = drawn.passage(), drawn.name()
    story = Story()
    document = drawn.passage()
    story.gave("r", document)
    story.asked("m", document, answer)
    summary = f"{label}: {answer}"
    story.asked("memory", answer, summary)
    interaction = ended(story, answer)
    interaction.candidates = interaction.written = (summary,)
    assert answer_of(interaction) == answer
