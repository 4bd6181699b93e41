"""Contexts are the texts that the answering model saw, and that neither it nor the user wrote."""

from __future__ import annotations

import html
import textwrap
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from rag_eval_hooks.capture.contexts import find_contexts
from rag_eval_hooks.capture.recorder import Recorder
from rag_eval_hooks.capture.records import Interaction, Origin, Run, RunKind
from rag_eval_hooks.sample import Context
from tests.support.variation import Variation, seeds

varied = pytest.mark.parametrize("seed", seeds(3))

A = "The ferry to Skarn leaves at 07:40 from the north quay every day."
B = "Bicycles travel free of charge on all sailings outside the summer."
C = "Dogs must be on a lead while they are on the car deck of the ship."
HEADING = "Handbook of the Skerrow Line, part three, on fares, dogs and luggage. "
UNDER_HEADING = [f"{HEADING}{text} {text} and so on" for text in (A, B, C)]
LONG = [f"{text} " * 9 for text in (A, B, C)]
YES = "yes, indeed"


class Story:
    def __init__(self) -> None:
        self.ended: list[Interaction] = []
        self.recorder = Recorder(self.take)
        self.root = self.run("root", None, RunKind.CHAIN)

    def take(self, ended: Interaction) -> None:
        if self.recorder.ended.decide(ended):
            self.ended.append(ended)

    def run(self, name: str, parent: Run | None, kind: RunKind) -> Run:
        parent_id = parent.id if parent else None
        run = self.recorder.start(name, parent_id, kind, name)
        assert run is not None
        return run

    def gave(self, name: str, *texts: str, kind: str = "retriever", parent: str = "root") -> None:
        run = self.run(name, self.recorder.get(parent) or self.root, RunKind(kind))
        origin = Origin.TEXT if kind == "tool" else Origin.DOCUMENTS
        self.recorder.documents(run, [Context(text=text, id=name) for text in texts], origin)
        self.recorder.end(run)

    def asked(self, name: str, prompt: str, reply: str) -> None:
        run = self.run(name, self.root, RunKind.MODEL)
        run.prompt, run.text = (prompt,), reply
        self.recorder.end(run)

    def contexts(self, answer: str) -> list[str] | None:
        self.root.text = answer
        self.recorder.end(self.root)
        if not self.ended:
            return None
        found = find_contexts(self.ended[0], answer).contexts
        return None if found is None else [context.text for context in found]


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
    "first in its prompt": ([gave(f"{A} {B}", A), asked(A)], [A], YES),
    "a grader says the answer's word": (
        [gave(A, B), asked(f"Use {B}", "Yes"), asked("Is 'Yes' an answer?", "Yes", "grader")],
        [B],
        "Yes",
    ),
    "the answer joins short replies": (
        [gave(A), asked(f"Is it so? {A}", "Yes."), asked("Is it late?", "No.", "other")],
        [A],
        "Yes. No.",
    ),
    "no prompt shows it": ([gave(A, name="search", kind="tool"), asked("Is it so?")], [A], YES),
    "short ones only where they are shown": (
        [gave("Head.", A, "Price: 42.", B, "Free.", "Day 7."), asked(f"Day 7. {B} {A} Price: 42.")],
        ["Day 7.", B, A, "Price: 42."],
        YES,
    ),
    "one short one is not known": (
        [gave("Day 7.", "Head."), asked("Day 7. Why?")],
        ["Day 7.", "Head."],
        YES,
    ),
    "a call without a reply": (
        [gave(A, B), asked(f"Use {A}", "It does."), asked(f"Use {B}", "", "retry")],
        [A],
        YES,
    ),
    "short ones alone are shown together": (
        [gave("Quay 4 opens.", "Head.", "Dock 2 is shut."), asked("Dock 2 is shut. Quay 4 opens.")],
        ["Dock 2 is shut.", "Quay 4 opens."],
        YES,
    ),
}


def test_contexts_of_a_story(subtests: pytest.Subtests) -> None:
    for name, (events, expected, answer) in CASES.items():
        with subtests.test(name):
            assert told(events, answer).contexts(answer) == expected


WORDS = {
    "english": "ferry quay price adult child daily morning leaves bicycle luggage summer office",
    "chinese": "渡轮 码头 票价 成人 儿童 每天 早上 出发 自行车 行李 夏季 办公室 多少 灯塔",
    "japanese": "渡し船 埠頭 料金 大人 子供 毎日 出発する 自転車 荷物 無料 いくら 必要 灯台 駐車場",
    "korean": "여객선 부두 요금 어른 아이 매일 아침 출발 자전거 무료 얼마 필요 등대 주차장",
    "thai": "เรือ ราคา ผู้ใหญ่ เด็ก ทุกวัน ออกเดินทาง จักรยาน กระเป๋า ฟรี เวลา เท่าไหร่ ประภาคาร ที่จอดรถ",
}


@pytest.mark.parametrize("language", WORDS)
def test_text_of_which_two_words_are_shown_is_no_context(language: str) -> None:
    listed, gap = WORDS[language].split(), " " if language in ("english", "korean") else ""
    for seed in range(5):
        chance = Variation(seed).chance
        words, other = (chance.choices(listed, k=24) for _ in range(2))
        shown, hidden = gap.join(words), gap.join(other)
        for shared, is_shown in ((other[6:8], False), (other[6:20], True)):
            around = chance.choices(listed, k=6)
            asks = gap.join([*around[:3], *shared, *around[3:]])
            found = told([gave(shown, hidden), asked(f"{shown}\n{asks}?")], YES).contexts(YES)
            assert found == [shown, hidden][: 1 + is_shown], seed


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
def test_text_that_a_formatter_altered_is_known_by_its_words(
    formatter: Callable[[str], str],
) -> None:
    for seed in seeds(3):
        texts = Variation(3 * seed).passages(4)
        events = [gave(*texts), asked(f"Use:\n{formatter(texts[2])}\n{formatter(texts[0])}")]
        assert told(events, YES).contexts(YES) == [texts[2], texts[0]], seed


@varied
def test_document_that_a_quoted_grader_rejected_is_no_context(seed: int) -> None:
    drawn = Variation(seed)
    texts, answer = drawn.passages(3), drawn.sentence()
    kept, reasons = drawn.chance.choice(texts), [drawn.sentence() for _ in texts]
    graders = [asked(f"Grade {t}", r, t) for t, r in zip(texts, reasons, strict=True)]
    events = [gave(*texts), *graders, gave(f"\n {kept}\n", name="filter", kind="chain")]
    prompt = "\n".join([kept, *reasons])
    found = told([*events, asked(prompt, answer)], answer).contexts(answer) or []
    assert [text.strip() for text in found] == [kept]


@varied
def test_source_of_a_call_that_no_prompt_quotes_keeps_its_place(seed: int) -> None:
    drawn = Variation(seed)
    texts, part, answer = drawn.passages(3), drawn.sentence(), drawn.sentence()
    quoted, number = seed % 3, f"{drawn.chance.randint(100, 999)}."
    replies = [part if n == quoted else number for n in range(3)]
    parts = [asked(f"From {t}", r, t) for t, r in zip(texts, replies, strict=True)]
    story = told([gave(*(f"\n {text}\n" for text in texts)), *parts], answer)
    story.recorder.documents(story.root, [Context(text=t) for t in texts], Origin.SOURCES)
    story.asked("whole", " ".join(replies), answer)
    assert [text.strip() for text in story.contexts(answer) or ()] == texts


def test_sources_of_the_whole_come_before_those_of_a_part() -> None:
    story = told([asked("Is it so?")], YES)
    part = story.run("part", story.root, RunKind.CHAIN)
    for run, text in ((part, B), (story.root, A)):
        story.recorder.documents(run, [Context(text=text)], Origin.SOURCES)
    assert story.contexts(YES) == [A]


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
def test_rewritten_text_replaces_only_the_document_it_was_made_of(seed: int) -> None:
    one, two = Variation(seed).passages(2)
    short = two[: len(two) // 2]
    later = f"{short} ..."
    for text, given, second in (
        (later, two, later),
        (later, short, later),
        (later, None, later),
        (two, two, two),
        (short, None, two),
    ):
        events = [store("a", one), store("b", two), store("c", text, RunKind.RERANKER, given)]
        story = told(events, YES)
        story.recorder.end(story.root)
        lists = story.root.interaction.lists
        found = [context.text for each in lists for context in each.contexts]
        assert found == [one, second, text], (text, given)
