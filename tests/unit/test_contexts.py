"""Contexts are the texts that the answering model saw, and that neither it nor the user wrote."""

from __future__ import annotations

import html
import json
import textwrap
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from rag_eval_hooks.capture.contexts import ContextSource, find_contexts
from rag_eval_hooks.capture.question_answer import question_of
from rag_eval_hooks.capture.records import Interaction, Origin, RunKind
from rag_eval_hooks.capture.rows import rows_in
from rag_eval_hooks.capture.tool_kinds import ToolKind, tool_kind
from rag_eval_hooks.sample import Context
from tests.support.story import Story
from tests.support.variation import Variation, seeds

varied = pytest.mark.parametrize("seed", seeds(6))

A = "The ferry to Skarn leaves at 07:40 from the north quay every day."
B = "Bicycles travel free of charge on all sailings outside the summer."
C = "Dogs must be on a lead while they are on the car deck of the ship."
HEADING = "Handbook of the Skerrow Line, part three, on fares, dogs and luggage. "
UNDER_HEADING = [f"{HEADING}{text} {text} and so on" for text in (A, B, C)]
LONG = [f"{text} " * 9 for text in (A, B, C)]
YES = "yes, indeed"


def gave(*texts: str, name: str = "r", kind: str = "retriever", parent: str = "root") -> Any:
    return lambda story: story.gave(name, *texts, kind=kind, parent=parent)


def asked(prompt: str, reply: str = YES, name: str = "m") -> Any:
    return lambda story: story.asked(name, prompt, reply)


def told(events: Sequence[Callable[[Story], Any]], answer: str) -> Story:
    story = Story()
    for event in events:
        event(story)
    story.root.text = answer
    return story


CASES: dict[str, tuple[list[Any], list[str] | None, str]] = {
    "reflowed": ([gave(A.replace(" ", "\n ")), asked(f"Use {A}")], [A.replace(" ", "\n ")], YES),
    "cut at its end": ([gave(LONG[0]), asked(f"Use {LONG[0][:200]}...")], [LONG[0]], YES),
    "cut under one heading": (
        [gave(*UNDER_HEADING), asked(f"{UNDER_HEADING[2][:110]}... {UNDER_HEADING[0][:120]}...")],
        [UNDER_HEADING[2], UNDER_HEADING[0]],
        YES,
    ),
    "cut by a compressor": (
        [gave(f"{A} {B} {C}"), gave(f"{A} Bic", name="c", kind="chain"), asked(f"Use {A} Bic B")],
        [f"{A} Bic"],
        YES,
    ),
    "cut parent around a child": (
        [gave(A, f"{A} {B} {C}"), asked(f"{A} {B}...")],
        [f"{A} {B} {C}"],
        YES,
    ),
    "twice": ([gave(A, B), asked(f"{B}\n{A}\n{B}")], [B, A], YES),
    "a grader says the answer's word": (
        [gave(A, B), asked(f"Use {B}", "Yes"), asked("Is 'Yes' an answer?", "Yes", "grader")],
        [B],
        "Yes",
    ),
    "too short: the structure": (
        [gave("ferry", "quay"), asked("ferry or quay?")],
        ["ferry", "quay"],
        YES,
    ),
    "short ones only where they are shown": (
        [gave("Head.", A, "Price: 42.", B, "Free.", "Now."), asked(f"{B} {A} Price: 42.")],
        [B, A, "Price: 42."],
        YES,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_contexts_of_a_story(name: str) -> None:
    events, expected, answer = CASES[name]
    assert told(events, answer).contexts(answer) == expected


WORDS = {
    "english": "ferry quay price adult child daily morning leaves bicycle luggage summer office",
    "chinese": "渡轮 码头 票价 成人 儿童 每天 早上 出发 自行车 行李 夏季 办公室 多少 灯塔",
    "japanese": "渡し船 埠頭 料金 大人 子供 毎日 出発する 自転車 荷物 無料 いくら 必要 灯台 駐車場",
    "korean": "여객선 부두 요금 어른 아이 매일 아침 출발 자전거 무료 얼마 필요 등대 주차장",
    "thai": "เรือ ราคา ผู้ใหญ่ เด็ก ทุกวัน ออกเดินทาง จักรยาน กระเป๋า ฟรี เวลา เท่าไหร่ ประภาคาร ที่จอดรถ",
}


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("language", WORDS)
def test_text_of_which_two_words_are_shown_is_no_context(language: str, seed: int) -> None:
    chance, listed = Variation(seed).chance, WORDS[language].split()
    gap = " " if language in ("english", "korean") else ""
    shown, other = (chance.choices(listed, k=24) for _ in range(2))
    for shared, is_shown in ((other[6:8], False), (other[6:20], True)):
        words = gap.join([*chance.choices(listed, k=3), *shared, *chance.choices(listed, k=3)])
        events = [gave(gap.join(shown), gap.join(other)), asked(f"{gap.join(shown)}\n{words}?")]
        contexts = told(events, YES).contexts(YES) or []
        assert (gap.join(other) in contexts) is is_shown
        assert gap.join(shown) in contexts


ALTERED = [
    lambda text: " ".join(f"[{n}] {part}" for n, part in enumerate(text.split(". "))),
    lambda text: text.partition(". ")[2],
    lambda text: "\n".join(textwrap.wrap(f"- {text.upper().lower()}", 30)),
    lambda text: f"**{text}**<br>",
    lambda text: f"é İ 水 {text.upper()}",
    lambda text: "> " + text.replace(". ", ".\n> "),
    lambda text: html.escape(repr(f'"{text}"')),
]


@pytest.mark.parametrize("formatter", ALTERED)
@pytest.mark.parametrize("seed", seeds(3))
def test_text_that_a_formatter_altered_is_known_by_its_words(
    formatter: Callable[[str], str], seed: int
) -> None:
    texts = Variation(3 * seed).passages(4)
    events = [gave(*texts), asked(f"Use:\n{formatter(texts[2])}\n{formatter(texts[0])}")]
    assert told(events, YES).contexts(YES) == [texts[2], texts[0]]


@pytest.mark.parametrize("question", [f"Is this so? {A} Tell me.", f"{A} {C}"])
def test_text_inside_the_question_is_not_shown_by_that(question: str) -> None:
    for behind, expected in (("", [B]), (f"\n{A}", [B, A])):
        story = told([gave(A, B), asked(f"Question: {question}\nUse {B}{behind}")], YES)
        story.root.query = question
        assert story.contexts(YES) == expected


@varied
def test_calls_whose_short_outputs_are_quoted_belong_to_the_answer(seed: int) -> None:
    """Partial answers of a word or two lead to their documents, graders' words to none."""
    drawn = Variation(seed)
    first, second, other = drawn.passages(3)
    one, two, answer = drawn.short(), drawn.short(), drawn.sentence()
    events = [
        gave(other, first, second),
        asked(f"Answer good or bad: {other}", "good", "grader"),
        asked(f"Answer from {first}", one, "part"),
        asked(f"Answer from {second}", two, "another"),
        asked(f"Be a good reader. Parts: {one}; {two}", answer, "whole"),
    ]
    assert told(events, answer).contexts(answer) == [first, second]


@varied
def test_document_that_a_quoted_grader_rejected_is_no_context(seed: int) -> None:
    drawn = Variation(seed)
    texts, answer = drawn.passages(3), drawn.sentence()
    kept, reasons = drawn.chance.choice(texts), [drawn.sentence() for _ in texts]
    graders = [asked(f"Grade {t}", r, t) for t, r in zip(texts, reasons, strict=True)]
    events = [gave(*texts), *graders, gave(kept, name="filter", kind="chain")]
    prompt = "\n".join([kept, *reasons])
    assert told([*events, asked(prompt, answer)], answer).contexts(answer) == [kept]


@varied
def test_answering_prompt_orders_contexts(seed: int) -> None:
    drawn = Variation(seed)
    old, kept, new = drawn.passages(3)
    summary, answer = drawn.sentence(), drawn.sentence()
    events = [
        gave(old, kept),
        asked(f"Sum up {kept} {old}", summary, "summary"),
        gave(new, name="again"),
        asked(f"So far: {summary}\n{new}\n{kept}", answer),
    ]
    assert told(events, answer).contexts(answer) == [new, kept, old]


@varied
def test_short_text_counts_if_a_prompt_shows_it_with_its_list(seed: int) -> None:
    drawn = Variation(seed)
    (long,), word = drawn.passages(1), drawn.name()[:9]
    for prompt, expected in (
        (f"{long}\n{word}", [long, word]),
        (f"{word}: {long}", [word, long]),
        (long, [long]),
        (f"{long} x{word}x", [long]),
    ):
        assert told([gave(word, long), asked(prompt)], YES).contexts(YES) == expected
    # By itself it may stand there by chance.
    assert told([gave(word, name="other"), gave(long), asked(f"{long}\n{word}")], YES).contexts(
        YES
    ) == [long]


@varied
def test_source_of_a_call_that_no_prompt_quotes_keeps_its_place(seed: int) -> None:
    drawn = Variation(seed)
    texts, part, answer = drawn.passages(3), drawn.sentence(), drawn.sentence()
    quoted, number = seed % 3, f"{drawn.chance.randint(100, 999)}."
    replies = [part if n == quoted else number for n in range(3)]
    parts = [asked(f"From {t}", r, t) for t, r in zip(texts, replies, strict=True)]
    story = told([gave(*texts), *parts], answer)
    story.recorder.documents(story.root, [Context(text=t) for t in texts], Origin.SOURCES)
    story.asked("whole", " ".join(replies), answer)
    assert story.contexts(answer) == texts


@varied
def test_words_of_a_query_show_no_document(seed: int) -> None:
    draw = Variation(seed)
    subject, (shown, *_) = draw.sentence(12)[:-1], draw.passages(1)
    query, unseen = f"{draw.word()} {subject}?", f"{draw.sentence()} {subject} {draw.sentence()}"
    story = told([gave(shown), gave(unseen, name="other")], YES)
    story.root.interaction.runs[-1].query = query
    story.asked("m", f"{query}\n{shown}", YES)
    assert story.contexts(YES) == [shown]


# Texts of steps and tools.


def tool(name: str, text: str, *, description: str = "", query: str = "") -> Any:
    def call(story: Story) -> None:
        run = story.run(name, story.root, RunKind.TOOL)
        run.description, run.query = description, json.dumps({"query": query})
        story.recorder.documents(run, [Context(text=text)], Origin.TEXT)
        story.recorder.end(run)

    return call


def ended(events: Sequence[Callable[[Story], Any]], answer: str) -> Interaction:
    story = told(events, answer)
    story.recorder.end(story.root)
    return story.root.interaction


def found(
    events: Sequence[Callable[[Story], Any]], answer: str
) -> tuple[list[str], ContextSource | None]:
    contexts, source = find_contexts(ended(events, answer), answer)
    return [context.text for context in contexts or ()], source


@pytest.mark.parametrize(
    ("name", "description", "kind"),
    [
        ("search_docs", "", ToolKind.LOOKUP),
        ("getRefundPolicy", "", ToolKind.LOOKUP),
        ("book_search", "", ToolKind.LOOKUP),
        ("get_weather_today", "", ToolKind.LOOKUP),
        ("xy", "Searches the handbook. Books nothing.", ToolKind.LOOKUP),
        ("xy", "xy(query: str) -> str\nUseful for questions about fares.", ToolKind.LOOKUP),
        ("xy", "在手册中搜索", ToolKind.LOOKUP),
        ("book_room", "Finds nothing.", ToolKind.ACTION),
        ("get_current_time", "", ToolKind.ACTION),
        ("transfer_to_writer", "", ToolKind.ACTION),
        ("xy", "Calculates the sum of two numbers.", ToolKind.ACTION),
        ("xy", "", ToolKind.UNKNOWN),
    ],
)
def test_tool_kind_reads_name_then_description(name: str, description: str, kind: ToolKind) -> None:
    assert tool_kind(name, description) is kind


@varied
def test_earlier_turn_is_evidence_if_the_answer_takes_from_it(seed: int) -> None:
    drawn = Variation(seed)
    document, before = drawn.passages(2)

    def turn(story: Story) -> None:
        model = story.root.interaction.runs[-1]
        model.prompt = (document, drawn.question(), before, drawn.question())
        model.roles = ("tool", "user", "assistant", "user")

    for answer, expected in (
        (document[: len(document) // 2], ([document], ContextSource.PROMPT)),
        (before[: len(before) // 2], ([document, before], ContextSource.EARLIER_TURN)),
    ):
        texts, source = found([gave(document), asked(document, answer), turn], answer)
        assert ([text for text in texts if text in (document, before)], source) == expected


@varied
def test_short_input_that_nothing_was_given_is_not_the_question(seed: int) -> None:
    drawn = Variation(seed)
    question, setting, document = drawn.question(), drawn.name()[:9], drawn.passage()
    story = told([gave(document), asked(f"{document}\n{question}")], YES)
    retriever = story.root.interaction.runs[1]
    retriever.query = question
    for texts, expected in (((setting,), "query"), ((setting, question), "prompt")):
        story.root.interaction.asked = texts
        assert question_of(story.root.interaction) == (question, expected)


@varied
def test_part_of_a_json_reply_that_a_prompt_quotes_leads_to_its_documents(seed: int) -> None:
    drawn = Variation(seed)
    texts, answer = drawn.passages(2), drawn.sentence()
    parts = [drawn.sentence() for _ in texts]
    calls = [
        asked(
            f"From {text}", json.dumps({drawn.name(): part}, ensure_ascii=drawn.seed % 2 > 0), part
        )
        for text, part in zip(texts, parts, strict=True)
    ]
    events = [gave(*texts), *calls, asked("\n".join(parts), answer, "whole")]
    assert found(events, answer) == (texts, ContextSource.PROMPT)


@varied
def test_record_within_a_record_stays_whole(seed: int) -> None:
    """Its longest value is no text by itself, unless it has the name of a text."""
    drawn = Variation(seed)
    value = " ".join(drawn.name() for _ in range(3))
    record = {drawn.name(): {drawn.name(): value[:39], drawn.name(): seed}}
    assert [[c.text for c in rows] for rows in rows_in(record)] == [[repr(record)]]
    hit = {drawn.name(): {"text": value, "score": seed}}
    assert [[c.text for c in rows] for rows in rows_in(hit)] == [[value]]


# Masked and rewritten texts.


def store(
    name: str, text: str, kind: RunKind = RunKind.RETRIEVER, given: str | None = None
) -> Callable[[Story], None]:
    def give(story: Story) -> None:
        run = story.run(name, story.root, kind)
        before = None if given is None else {"1": given}
        story.recorder.documents(run, [Context(text=text, id="1")], given=before)
        story.recorder.end(run)

    return give


@varied
@pytest.mark.parametrize("given", ["nothing", "before", "changed in place", "unchanged", "preview"])
def test_rewritten_text_replaces_only_the_document_it_was_made_of(seed: int, given: str) -> None:
    """Two stores number their documents alike, and the step was given that of the second."""
    one, two = Variation(seed).passages(2)
    short = two[: len(two) // 2]
    later = {"unchanged": two, "preview": short}.get(given, f"{short} ...")
    was = {"nothing": None, "preview": None, "changed in place": short}.get(given, two)
    events = [store("a", one), store("b", two), store("c", later, RunKind.RERANKER, was)]
    lists = ended(events, YES).lists
    second = two if given == "preview" else later
    assert [c.text for each in lists for c in each.contexts] == [one, second, later]
