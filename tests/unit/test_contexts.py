"""Contexts are the texts that the answering model saw."""

from __future__ import annotations

import html
import json
import textwrap
from collections.abc import Callable

import pytest

from rag_eval_hooks.capture.contexts import find_contexts
from rag_eval_hooks.capture.records import Origin, RunKind
from rag_eval_hooks.sample import Context
from tests.support.story import Story
from tests.support.variation import Variation, seeds

A = "The ferry to Skarn leaves at 07:40 from the north quay every day."
B = "Bicycles travel free of charge on all sailings outside the summer."
C = "Dogs must be on a lead while they are on the car deck of the ship."


WORDS = {
    "english": "ferry quay price adult child daily morning leaves bicycle luggage summer office",
    "chinese": "渡轮 码头 票价 成人 儿童 每天 早上 出发 自行车 行李 夏季 办公室 多少 灯塔",
    "japanese": "渡し船 埠頭 料金 大人 子供 毎日 出発する 自転車 荷物 無料 いくら 必要 灯台 駐車場",
    "korean": "여객선 부두 요금 어른 아이 매일 아침 출발 자전거 무료 얼마 필요 등대 주차장",
    "thai": "เรือ ราคา ผู้ใหญ่ เด็ก ทุกวัน ออกเดินทาง จักรยาน กระเป๋า ฟรี เวลา เท่าไหร่ ประภาคาร ที่จอดรถ",
}


def test_contexts_stand_in_prompt_order() -> None:
    """The contexts are what stands in the answering prompt, in its order."""
    story = Story()
    story.gave("r", A, B, C)
    story.asked("m", f"Use this:\n{C}\n{A}\nWhen?", "At 07:40.")
    assert story.contexts("At 07:40.") == [C, A]


def test_whitespace_does_not_hide_a_context() -> None:
    """A formatter may reflow a text."""
    story = Story()
    story.gave("r", A.replace(" ", "\n "))
    story.asked("m", f"Use {A}", "yes, indeed")
    assert story.contexts("yes, indeed") == [A.replace(" ", "\n ")]


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("language", WORDS)
def test_a_turn_of_phrase_is_no_document(language: str, seed: int) -> None:
    """A prompt that shares two words with a document does not show it; one of its half does."""
    chance, listed = Variation(seed).chance, WORDS[language].split()
    gap = " " if language in ("english", "korean") else ""
    shown, other = (chance.choices(listed, k=24) for _ in range(2))
    for shared, found in ((other[6:8], False), (other[6:20], True)):
        story = Story()
        story.gave("r", gap.join(shown), gap.join(other))
        asked = gap.join([*chance.choices(listed, k=3), *shared, *chance.choices(listed, k=3)])
        story.asked("m", f"Use this:\n{gap.join(shown)}\n{asked}?", "yes, indeed")
        contexts = story.contexts("yes, indeed") or []
        assert (gap.join(other) in contexts) is found
        assert gap.join(shown) in contexts


def test_a_text_cut_by_a_formatter_is_still_found() -> None:
    """The beginning of a long text is enough to know it."""
    long = f"{A} {B} {C}" * 2
    story = Story()
    story.gave("r", long)
    story.asked("m", f"Use {long[:200]}...", "yes, indeed")
    assert story.contexts("yes, indeed") == [long]


def test_other_model_calls_do_not_count() -> None:
    """Documents that only a grader or a rewriter saw are no contexts of the answer."""
    story = Story()
    story.gave("r", A, B)
    story.asked("grader", f"Is this of use? {B}", "no")
    story.asked("m", f"Use {A}", "It leaves at 07:40.")
    assert story.contexts("It leaves at 07:40.") == [A]


def test_a_call_whose_output_went_into_the_answer_counts() -> None:
    """Summaries made of documents pass their documents on to the answer."""
    story = Story()
    story.gave("r", A, B)
    story.asked("map", f"Sum up: {A}", "The morning ferry is at 07:40 from the quay.")
    story.asked("m", "Answer from: The morning ferry is at 07:40 from the quay.", "At 07:40.")
    assert story.contexts("At 07:40.") == [A]


def test_a_later_stage_knows_more_about_the_same_text() -> None:
    """Of two copies of a text, that of the later stage is kept."""
    story = Story()
    story.gave("retriever", A, B)
    story.gave("reranker", A, kind="chain")
    story.asked("m", f"Use {A}", "yes, indeed")
    story.root.text = "yes, indeed"
    story.recorder.end(story.root)
    found = find_contexts(story.ended[0], story.root.text).contexts
    assert found is not None
    assert [context.id for context in found] == ["reranker"]


def test_a_text_inside_another_counts_once() -> None:
    """A parent document shadows the child that it holds."""
    story = Story()
    story.gave("r", A, f"{A} {B}")
    story.asked("m", f"Use {A} {B}", "yes, indeed")
    assert story.contexts("yes, indeed") == [f"{A} {B}"]


def test_without_a_match_the_last_list_outside_a_retriever_counts() -> None:
    """The last list outside a retriever counts where no prompt holds a text."""
    story = Story()
    story.gave("r", A, B, C)
    story.gave("filter", B, kind="chain")
    story.asked("m", "the documents were paraphrased", "yes, indeed")
    assert story.contexts("yes, indeed") == [B]


def test_without_a_match_outermost_retrievers_count_once() -> None:
    """Retrievals inside a retriever are part of it, and equal texts count once."""
    story = Story()
    outer = story.run("outer", story.root, RunKind.RETRIEVER)
    story.gave("inner", A, C, parent="outer")
    story.recorder.documents(outer, [Context(text=A), Context(text=B)])
    story.recorder.end(outer)
    story.gave("second", B)
    assert story.contexts("yes, indeed") == [A, B]


def test_texts_too_short_to_match_go_by_structure() -> None:
    """A text of a word or two stands in a prompt by chance and proves nothing."""
    story = Story()
    story.gave("r", "ferry", "quay")
    story.asked("m", "ferry or quay?", "yes, indeed")
    assert story.contexts("yes, indeed") == ["ferry", "quay"]


@pytest.mark.parametrize(("texts", "expected"), [((), []), ((A,), [A])])
def test_an_empty_retrieval_is_not_no_retrieval(
    texts: tuple[str, ...], expected: list[str]
) -> None:
    """A retrieval that found nothing gives an empty list of contexts."""
    story = Story()
    story.gave("r", *texts)
    assert story.contexts("an answer") == expected


def test_no_retrieval_gives_no_contexts() -> None:
    """Without any list of documents there are no contexts at all."""
    story = Story()
    assert find_contexts(story.root.interaction, None).contexts is None


def test_a_short_text_beside_a_seen_one_counts() -> None:
    """A text too short to be searched belongs to the one that stood beside it."""
    story = Story()
    story.gave("r", A, "Price: 42 euros.")
    story.asked("m", f"Use {A} Price: 42 euros.", "yes, indeed")
    assert story.contexts("yes, indeed") == [A, "Price: 42 euros."]


def test_texts_with_the_same_beginning_are_told_apart() -> None:
    """Chunks under one long heading are each found by their own text."""
    heading = "Handbook of the Skerrow Line, part three, on fares and luggage. " * 4
    chunks = [f"{heading}{text}" for text in (A, B, C)]
    story = Story()
    story.gave("r", *chunks)
    story.asked("m", f"Use {chunks[2]} and {chunks[0]}", "yes, indeed")
    assert story.contexts("yes, indeed") == [chunks[2], chunks[0]]


def test_texts_that_a_formatter_cut_do_not_hide_one_another() -> None:
    """A text that is longer than what the model saw of it takes no more room than that."""
    chunks = [f"{text} " * 9 for text in (A, B, C)]
    story = Story()
    story.gave("r", *chunks)
    story.asked("m", "Use " + " ".join(chunk[:200] for chunk in chunks), "yes, indeed")
    assert story.contexts("yes, indeed") == chunks


def test_a_text_inside_json_is_found() -> None:
    """Tools put documents into prompts as JSON."""
    quoted = f'{A}\nThe pilot said "no".'
    story = Story()
    story.gave("r", quoted)
    story.gave("other", B)
    story.asked("m", json.dumps({"documents": [quoted, B]}), "yes, indeed")
    assert story.contexts("yes, indeed") == [quoted, B]


ODD = 'The pilot\'s order:\n"Dogs & cats <under 5 kg> stay below deck."\n\nNo more was said.'


@pytest.mark.parametrize(
    "form",
    [
        repr,
        lambda text: repr(text.replace('"', "")) + repr(text),
        lambda text: repr(f'"{text}"'),
        json.dumps,
        html.escape,
        lambda text: html.escape(text, quote=False),
        lambda text: textwrap.indent(text, "> "),
        lambda text: "> " + text.replace("\n", "\n> "),
        lambda text: textwrap.indent(text, "    "),
    ],
)
def test_a_text_in_another_form_is_found_beside_one_as_it_is(form: Callable[[str], str]) -> None:
    """A formatter that escapes or quotes some texts hides none of them."""
    story = Story()
    story.gave("r", A, ODD, B)
    story.asked("m", f"Use {A}\n{form(ODD)}\nor {B}", "yes, indeed")
    assert story.contexts("yes, indeed") == [A, ODD, B]


@pytest.mark.parametrize("length", [90, 120])
def test_a_text_cut_short_is_found_beside_one_as_it_is(length: int) -> None:
    """A text of which the model saw the first line or two was seen."""
    long = f"{A} {B} {C}"
    story = Story()
    story.gave("r", long, f"{C} {B} {A}", A[:50])
    story.asked("m", f"Use {A[:50]}\n{long[:length]}...", "yes, indeed")
    assert story.contexts("yes, indeed") == [A[:50], long]


def test_a_beginning_that_texts_share_tells_nothing_of_what_was_not_shown() -> None:
    """Under a common heading, only texts that stand there with words of their own were seen."""
    heading = "Handbook of the Skerrow Line, part three, on fares, dogs and luggage. "
    chunks = [f"{heading}{text} {text} and so on" for text in (A, B, C)]
    story = Story()
    story.gave("r", *chunks)
    story.asked("m", f"Use {chunks[2][:110]}... {chunks[0][:120]}...", "yes, indeed")
    assert story.contexts("yes, indeed") == [chunks[2], chunks[0]]


@pytest.mark.parametrize("next_one", ["", " ", " B"])
def test_a_text_that_a_compressor_cut_is_that_of_the_compressor(next_one: str) -> None:
    """A text that stands there in full is not also the beginning of its uncut form."""
    long = f"{A} {B} {C}"
    story = Story()
    story.gave("r", long)
    story.gave("compressor", f"{A} Bic", kind="chain")
    story.asked("m", f"Use {A} Bic{next_one}", "yes, indeed")
    assert story.contexts("yes, indeed") == [f"{A} Bic"]


def test_a_parent_cut_short_shadows_the_child_that_it_begins_with() -> None:
    """The parent was shown where far more than the child stands in the prompt."""
    story = Story()
    story.gave("r", A, f"{A} {B} {C}")
    story.asked("m", f"Use {A} {B}...", "yes, indeed")
    assert story.contexts("yes, indeed") == [f"{A} {B} {C}"]


def test_of_equal_texts_in_one_list_the_first_counts() -> None:
    """Two equal texts in one list are the first document, whatever an earlier stage called it."""
    story = Story()
    story.gave("before", A)
    run = story.run("r", story.root, RunKind.RETRIEVER)
    story.recorder.documents(run, [Context(text=A, id="first"), Context(text=A, id="second")])
    story.recorder.end(run)
    story.asked("m", f"Use {A}", "yes, indeed")
    story.root.text = "yes, indeed"
    story.recorder.end(story.root)
    found = find_contexts(story.ended[0], story.root.text).contexts
    assert found is not None
    assert [context.id for context in found] == ["first"]


def test_short_texts_keep_their_place_in_their_list() -> None:
    """Texts too short to be looked for stand by their neighbours, in the prompt's order."""
    story = Story()
    story.gave("r", "Head.", A, "Price: 42.", B, "Free.", "Now.")
    story.asked("m", f"Use Free. Now. {B} Head. {A} Price: 42.", "yes, indeed")
    assert story.contexts("yes, indeed") == [B, "Free.", "Now.", "Head.", A, "Price: 42."]


def test_a_wide_character_counts_as_two() -> None:
    """A sentence of a dozen Chinese characters is long enough to be looked for."""
    ferry, dogs = "渡轮每天七点四十分从北码头开出。", "狗在汽车甲板上必须拴着绳子。"
    story = Story()
    story.gave("r", ferry, dogs)
    story.asked("m", f"请用:{dogs}", "必须拴着。")
    assert story.contexts("必须拴着。") == [dogs]


@pytest.mark.parametrize("asked", [f"Is this so? {A} Tell me.", f"{A} {C}"])
def test_a_text_inside_the_question_was_not_shown_by_that(asked: str) -> None:
    """A text that the user quotes is no context; behind the question it is one."""
    for behind, expected in (("", [B]), (f"\n{A}", [B, A])):
        story = Story()
        story.root.query = asked
        story.gave("r", A, B)
        story.asked("m", f"Question: {asked}\nUse {B}{behind}", "yes, indeed")
        assert story.contexts("yes, indeed") == expected


def test_a_short_answer_is_that_of_the_call_with_documents() -> None:
    """A grader that says the same word afterwards did not give the answer."""
    story = Story()
    story.gave("r", A, B)
    story.asked("m", f"Use {B}", "Yes")
    story.asked("grader", "Does 'Yes' answer the question?", "Yes")
    assert story.contexts("Yes") == [B]


def test_stages_within_a_retriever_are_not_what_it_gave() -> None:
    """A filter inside it may let none pass, and the retriever give others all the same."""
    story = Story()
    outer = story.run("outer", story.root, RunKind.RETRIEVER)
    story.gave("inner", A, parent="outer")
    story.gave("filter", kind="chain", parent="outer")
    story.recorder.documents(outer, [Context(text=B, id="outer")])
    story.recorder.end(outer)
    story.asked("m", "Of what was found, in other words", "yes, indeed")
    assert story.contexts("yes, indeed") == [B]


def test_what_a_retriever_found_before_it_raised_is_not_known_to_be_used() -> None:
    """Sub-retrievals of one that failed were shown to nobody: without contexts, not without any."""
    story = Story()
    outer = story.run("outer", story.root, RunKind.RETRIEVER)
    story.gave("inner", A, parent="outer")
    story.recorder.fail(outer, ConnectionError())
    story.asked("m", "Say that you do not know", "I do not know, sorry.")
    assert story.contexts("I do not know, sorry.") is None


NUMBERED = [
    lambda text: " ".join(f"[{n}] {part}" for n, part in enumerate(text.split(". "))),
    lambda text: text.partition(". ")[2],
    lambda text: "\n".join(textwrap.wrap(f"- {text.upper().lower()}", 30)),
    lambda text: f"**{text}**<br>",
]


@pytest.mark.parametrize("formatter", NUMBERED)
@pytest.mark.parametrize("seed", seeds(5))
def test_a_text_that_a_formatter_altered_is_known_by_its_words(
    formatter: Callable[[str], str], seed: int
) -> None:
    """Numbered, without its first sentence, wrapped or in bold: the texts shown, and no other."""
    texts = Variation(3 * seed).passages(4)
    story = Story()
    story.gave("r", *texts)
    story.asked("m", f"Use:\n{formatter(texts[2])}\n{formatter(texts[0])}", "yes, indeed")
    assert story.contexts("yes, indeed") == [texts[2], texts[0]]


@pytest.mark.parametrize("seed", seeds(6))
def test_calls_whose_short_outputs_are_quoted_belong_to_the_answer(seed: int) -> None:
    """Partial answers of a word or two lead to their documents, graders' words to none."""
    drawn = Variation(seed)
    first, second, other = drawn.passages(3)
    one, two, answer = drawn.short(), drawn.short(), drawn.sentence()
    story = Story()
    story.gave("r", other, first, second)
    story.asked("grader", f"Answer good or bad: {other}", "good")
    story.asked("part", f"Answer from {first}", one)
    story.asked("another", f"Answer from {second}", two)
    story.asked("whole", f"Be a good reader. Parts: {one}; {two}", answer)
    assert story.contexts(answer) == [first, second]


@pytest.mark.parametrize("seed", seeds(6))
def test_a_reply_that_its_instructions_hold_leads_to_no_documents(seed: int) -> None:
    """A refusal that every prompt prescribes does not tie the refusing calls to the answer."""
    drawn = Variation(seed)
    texts, refusal = drawn.passages(4), drawn.sentence()
    answer = drawn.sentence() if seed % 2 else drawn.short()
    right = drawn.chance.choice(texts)
    story = Story()
    story.gave("r", *texts)
    for text in texts:
        prompt = f"Where it does not answer, say: {refusal}\n{text}"
        story.asked(text, prompt, answer if text == right else refusal)
    assert story.contexts(answer) == [right]


@pytest.mark.parametrize("seed", seeds(6))
def test_the_answering_prompt_orders_what_it_shows(seed: int) -> None:
    """A summary that it quotes was made of texts that follow, whatever order that call saw."""
    drawn = Variation(seed)
    old, kept, new = drawn.passages(3)
    summary, answer = drawn.sentence(), drawn.sentence()
    story = Story()
    story.gave("r", old, kept)
    story.asked("summary", f"Sum up {kept} {old}", summary)
    story.gave("again", new)
    story.asked("model", f"So far: {summary}\n{new}\n{kept}", answer)
    assert story.contexts(answer) == [new, kept, old]


@pytest.mark.parametrize("seed", seeds(6))
def test_where_a_grader_lets_none_pass_the_model_saw_none(seed: int) -> None:
    """Another call was shown the documents, and the answering call no word of them."""
    drawn = Variation(seed)
    story = Story()
    story.gave("r", *(texts := drawn.passages(2)))
    story.asked("grader", f"Is this of use? {texts}", "no")
    story.asked("model", f"Answer as you know: {drawn.sentence()}", "I do not know that.")
    assert story.contexts("I do not know that.") == []


@pytest.mark.parametrize("seed", seeds(6))
def test_sources_are_a_floor(seed: int) -> None:
    """A source that an answer names counts, though it was too short to be searched."""
    drawn = Variation(seed)
    long, short = drawn.passage(), drawn.short()
    story = Story()
    story.gave("r", long, short)
    documents = [Context(text=short), Context(text=long)]
    story.recorder.documents(story.root, documents, Origin.SOURCES)
    answer = drawn.sentence()
    story.asked("model", f"Use {long} and {short}", answer)
    assert sorted(story.contexts(answer) or ()) == sorted([long, short])


@pytest.mark.parametrize("seed", seeds(6))
def test_a_text_that_holds_the_sentence_is_what_was_shown(seed: int) -> None:
    """The window around a sentence, from its metadata, is the context where the prompt has it."""
    drawn = Variation(seed)
    sentences = [drawn.sentence() for _ in range(5)]
    window = " ".join(sentences[1:4])
    story = Story()
    run = story.run("r", story.root, RunKind.RETRIEVER)
    one = Context(text=sentences[2], metadata={drawn.name(): window})
    story.recorder.documents(run, [one, Context(text=sentences[0])])
    story.recorder.end(run)
    answer = drawn.sentence()
    story.asked("model", f"Use {window}", answer)
    assert story.contexts(answer) == [window]


@pytest.mark.parametrize("seed", seeds(6))
def test_words_of_a_query_do_not_show_a_document(seed: int) -> None:
    """A prompt that quotes what a retriever was asked shows no document that shares its words."""
    draw = Variation(seed)
    subject, (shown, *_) = draw.sentence(12)[:-1], draw.passages(1)
    asked, unseen = f"{draw.word()} {subject}?", f"{draw.sentence()} {subject} {draw.sentence()}"
    story = Story()
    story.gave("r", shown)
    story.gave("other", unseen)
    other = next(run for run in story.root.interaction.runs if run.name == "other")
    other.query = asked
    story.asked("m", f"{asked}\n{shown}", draw.sentence())
    assert story.contexts(draw.sentence()) == [shown]
