"""Laws of the embedded judge."""

# ruff: noqa: RUF001 - it is about such characters

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_eval_hooks.claim_verdict import ClaimVerdict
from rag_eval_hooks.findings import (
    ChunkRelevance,
    Finding,
    Questions,
    Stance,
    Support,
    Verdict,
    made,
)
from rag_eval_hooks.judges.base import Judge
from rag_eval_hooks.judges.local import LocalJudge
from rag_eval_hooks.score import AnnotatorKind, Cause, NotScored
from tests.support.judge_task import JudgeTask
from tests.support.scripts import run_script
from tests.support.variation import run_seed

HEATH = "Erica vagans, the Cornish heath, grows on the Lizard. It flowers in July and August."
MINES = "Tin was mined at Botallack until 1895. The mine employed 604 people in 1865."
DELHI = "The Oberoi Group is a hotel company with its head office in Delhi."


def claims_of(answer: str) -> tuple[str, ...]:
    task = JudgeTask(wanted=frozenset({Finding.ANSWER_CLAIMS}), question="q", answer=answer)
    return made(asyncio.run(task.by(LocalJudge())).answer_claims)


def entities_of(reference: str) -> tuple[str, ...]:
    task = JudgeTask(wanted=frozenset({Finding.ENTITIES}), question="q", reference=reference)
    return made(asyncio.run(task.by(LocalJudge())).entities)


def support(
    claim: str, *chunks: str, question: str = "what?", judge: LocalJudge | None = None
) -> Support:
    task = JudgeTask(
        wanted=frozenset({Finding.ANSWER_SUPPORT}),
        question=question,
        chunks=chunks,
        answer_claims=(claim,),
    )
    found = asyncio.run(task.by(judge or LocalJudge()))
    return made(found.answer_support)[0]


def relevance(
    question: str, *chunks: str, reference: str | None = None, judge: LocalJudge | None = None
) -> tuple[ChunkRelevance, ...]:
    task = JudgeTask(
        wanted=frozenset({Finding.RELEVANCE}), question=question, chunks=chunks, reference=reference
    )
    return made(asyncio.run(task.by(judge or LocalJudge())).relevance)


def agreement(question: str, answer: str, reference: str) -> tuple[Verdict, Verdict]:
    """Whether the reference supports the answer, and whether the answer states the reference."""
    task = JudgeTask(
        wanted=frozenset({Finding.ANSWER_AGREEMENT, Finding.REFERENCE_AGREEMENT}),
        question=question,
        chunks=("",),
        answer=answer,
        reference=reference,
        answer_claims=(answer,),
        reference_claims=(reference,),
    )
    found = asyncio.run(task.by(LocalJudge()))
    return made(found.answer_agreement)[0], made(found.reference_agreement)[0]


class TestContract:
    def test_it_is_a_judge_that_admits_to_be_code(self) -> None:
        """The embedded judge fills the protocol and never pretends to be a model."""
        judge = LocalJudge()
        assert isinstance(judge, Judge)
        assert (judge.name, judge.annotator_kind) == ("embedded", AnnotatorKind.CODE)
        assert judge.version

    async def test_questions_are_absent_with_a_cause(self) -> None:
        """A finding that rules cannot make is absent, not guessed."""
        task = JudgeTask(wanted=frozenset({Finding.QUESTIONS}), question="q", answer="a")
        found = (await task.by(LocalJudge())).questions
        assert not isinstance(found, Questions)
        assert found == NotScored(
            Cause.MISSING_INPUT, "the embedded judge generates no questions and rates by no rubric"
        )

    async def test_only_what_is_wanted_is_made(self) -> None:
        """A finding that was not asked for stays absent."""
        task = JudgeTask(
            wanted=frozenset({Finding.RELEVANCE}), question="q", chunks=("c",), answer_claims=("a",)
        )
        found = await task.by(LocalJudge())
        assert isinstance(found.answer_support, NotScored)
        assert len(made(found.relevance)) == 1


class TestClaims:
    @pytest.mark.parametrize(
        ("answer", "expected"),
        [
            ("Cornish heath", ("Cornish heath",)),
            ("**Delhi**", ("Delhi",)),
            ("It grows. It flowers. It grows.", ("It grows.", "It flowers.")),
            ("Is it? It is green.", ("It is green.",)),
            (
                "Based on the given passages, here are the steps:\n\n1. Mix the soda.\n2. Wash it.",
                ("Mix the soda.", "Wash it."),
            ),
            ("According to passage 2, heath is pink (Passage 1).", ("heath is pink.",)),
            ("## Rates\nThe rate is 5% [2].", ("The rate is 5%.",)),
            (
                "The mine opened in 1820 by decree, but the company closed it in 1895.",
                ("The mine opened in 1820 by decree", "the company closed it in 1895."),
            ),
            ("Unable to answer based on given passages.", ()),
            ("The passages do not mention the price.", ()),
            ("Why?", ()),
            ("  ", ()),
            ("北京是首都。上海很大。", ("北京是首都。", "上海很大。")),
        ],
    )
    def test_claims_are_statements(self, answer: str, expected: tuple[str, ...]) -> None:
        """Each statement is one claim, once; questions, headings and talk are none."""
        assert claims_of(answer) == expected

    @given(st.text(max_size=120))
    def test_claims_are_distinct_and_not_blank(self, answer: str) -> None:
        """No text raises, and no claim is blank or said twice."""
        found = claims_of(answer)
        assert len(set(found)) == len(found)
        assert all(claim.strip() for claim in found)


class TestSupport:
    def test_a_stated_claim_is_supported_by_its_chunk_only(self) -> None:
        """The chunk that states a claim supports it, the others do not."""
        found = support("Cornish heath grows on the Lizard.", MINES, HEATH)
        assert found.by_chunk == (False, True)
        assert not found.together
        assert "chunk 2" in found.reason

    @pytest.mark.parametrize(
        ("claim", "named"),
        [
            ("The mine employed 605 people in 1865.", "605"),
            ("Tin was mined at Botallack until 1896.", "1896"),
            ("Tin was mined at Levant until 1895.", "Levant"),
            ("Cornish heath flowers in May.", "May"),
        ],
    )
    def test_a_wrong_value_or_name_is_unsupported_and_named(self, claim: str, named: str) -> None:
        """A number, name or date that no chunk holds breaks a claim, however close the rest."""
        found = support(claim, HEATH, MINES)
        assert not found.supported
        assert named in found.reason

    def test_a_number_of_another_chunk_does_not_help(self) -> None:
        """A chunk supports a claim only if it holds the claim's numbers itself."""
        found = support("The mine employed 70 people.", MINES, "A pasty costs 70 pence.")
        assert not found.supported

    @pytest.mark.parametrize(
        ("claim", "chunk"),
        [
            ("Aspirin does not cause bleeding.", "Aspirin causes bleeding in some patients."),
            ("Aspirin causes bleeding.", "Aspirin doesn't cause bleeding."),
            ("Der Zug hält nicht in Köln.", "Der Zug hält in Köln."),
            ("北京不是首都。", "北京是首都。"),
        ],
    )
    def test_an_opposite_statement_is_no_support(self, claim: str, chunk: str) -> None:
        """A claim that is denied where the chunk affirms it, or the reverse, is unsupported."""
        found = support(claim, chunk)
        assert not found.supported
        assert "negation" in found.reason

    def test_agreeing_negations_support(self) -> None:
        """The same denial on both sides is no conflict."""
        claim = "Aspirin does not cause bleeding."
        assert support(claim, "It was shown that aspirin does not cause bleeding.").supported

    @pytest.mark.parametrize(
        ("claim", "chunk"),
        [
            ("The mine was not open on Sundays.", "The mine was open on Sundays and Mondays."),
            ("Heath does not grow on granite.", "The Cornish heath grows on granite."),
        ],
    )
    def test_a_denial_in_other_company_is_no_support(self, claim: str, chunk: str) -> None:
        """A denial does not get lost because the two sentences also differ elsewhere."""
        assert not support(claim, chunk).supported

    @pytest.mark.parametrize(
        ("claim", "chunk"),
        [
            (
                "The V5 is not proof of ownership of a car.",
                "The V5 is not proof of ownership of a car: the keeper may or may not own the car.",
            ),
            (
                "S corporations cannot issue more than one class of stock.",
                "A C corporation can issue multiple classes of stock, while S corporations cannot "
                "issue more than one class of stock.",
            ),
            (
                "Place the asparagus in a glass container if you do not have a steamer basket.",
                "Place the asparagus in a steamer basket or in a glass container. You have both.",
            ),
        ],
    )
    def test_what_is_left_open_is_no_conflict(self, claim: str, chunk: str) -> None:
        """A condition, a "may or may not" and a denial of something else deny nothing."""
        assert support(claim, chunk).verdict is not ClaimVerdict.CONTRADICTED

    def test_reasons_show_words_as_written(self) -> None:
        """A reason quotes missing words as the claim has them, not as stems."""
        found = support("Passages about 1,000 fishing boats sank.", "He wrote 1000 letters.")
        assert "Passages, fishing, boats, sank" in found.reason

    def test_several_chunks_support_together(self) -> None:
        """A claim that only several chunks hold together is supported, by none of them alone."""
        claim = "The Lizard peninsula, serpentine rock and pink heath attract botanists yearly."
        found = support(
            claim,
            "The Lizard peninsula has serpentine rock.",
            "Pink heath attracts botanists, who come yearly.",
        )
        assert found.together
        assert not any(found.by_chunk)
        assert found.supported

    def test_words_of_the_question_weigh_little(self) -> None:
        """Restating the question does not make an answer unsupported."""
        claim = "The plant is called Cornish heath."
        assert support(claim, HEATH, question="What is the plant called?").supported

    @pytest.mark.parametrize(
        ("claim", "chunk", "other"),
        [
            ("北京是中国的首都。", "中国的首都是北京，人口很多。", "上海是最大的城市。"),
            ("東京は日本の首都です。", "日本の首都は東京です。", "大阪は商業の都市です。"),
            ("القاهرة عاصمة مصر.", "تعد القاهرة عاصمة مصر وأكبر مدنها.", "يقع النيل في أفريقيا."),
            (
                "Berlin hat 3,7 Millionen Einwohner.",
                "In Berlin leben 3,7 Millionen Einwohner.",
                "München liegt an der Isar.",
            ),
        ],
    )
    def test_other_languages(self, claim: str, chunk: str, other: str) -> None:
        """Support is found in scripts with and without spaces."""
        assert support(claim, other, chunk).by_chunk == (False, True)

    def test_written_forms_of_a_value_agree(self) -> None:
        """A value supports itself in any writing, a small number also as a word."""
        assert support("It cost 1000 pounds in two years.", "It cost £1,000 in 2 years.").supported
        assert support("He had 3 sons.", "He had three sons.").supported

    @settings(max_examples=50)
    @given(st.text(max_size=80), st.lists(st.text(max_size=80), min_size=1, max_size=4))
    def test_one_verdict_per_chunk(self, claim: str, chunks: list[str]) -> None:
        """Any texts get exactly one verdict per chunk, and together only when none is alone."""
        found = support(claim, *chunks)
        assert len(found.by_chunk) == len(chunks)
        assert not (found.together and any(found.by_chunk))
        assert found.reason

    def test_order_of_chunks_does_not_matter(self) -> None:
        """Verdicts follow their chunks through any order."""
        claim = "Cornish heath grows on the Lizard."
        chunks = [MINES, HEATH, DELHI]
        forward = support(claim, *chunks).by_chunk
        assert support(claim, *reversed(chunks)).by_chunk == forward[::-1]


class TestRelevance:
    def test_the_chunk_that_answers_is_useful(self) -> None:
        """Sharing the rare terms of question and reference makes a chunk useful."""
        found = relevance("Where does Cornish heath grow?", MINES, HEATH, reference="the Lizard")
        assert [chunk.useful for chunk in found] == [False, True]
        assert found[1].rating > found[0].rating

    def test_a_chunk_without_a_shared_term_rates_zero(self) -> None:
        """No shared term is rating 0."""
        assert relevance("Where does heath grow?", DELHI)[0].rating == 0.0

    @given(st.text(max_size=60), st.lists(st.text(max_size=60), min_size=1, max_size=3))
    def test_ratings_are_in_range(self, question: str, chunks: list[str]) -> None:
        """Ratings are from 0 to 100, one per chunk."""
        found = relevance(question, *chunks, reference="heath")
        assert len(found) == len(chunks)
        assert all(0.0 <= chunk.rating <= 100.0 for chunk in found)

    async def test_relevance_to_the_answer_leaves_the_reference_out(self) -> None:
        """Judged by the answer, a chunk of the answer's words is useful whatever the reference."""
        both = frozenset({Finding.RELEVANCE, Finding.RELEVANCE_TO_ANSWER})
        task = JudgeTask(
            wanted=both,
            question="Where?",
            chunks=(HEATH, DELHI),
            answer="It grows on the Lizard.",
            reference="In Delhi.",
        )
        found = await task.by(LocalJudge())
        assert [c.useful for c in made(found.relevance)] == [False, True]
        assert [c.useful for c in made(found.relevance_to_answer)] == [True, False]


class TestAgreement:
    def test_words_of_the_question_are_neutral(self) -> None:
        """An answer that restates the question agrees with the bare reference, both ways."""
        question = "What is the plant called?"
        there, back = agreement(question, "The plant is called Cornish heath.", "Cornish heath")
        assert there.holds
        assert back.holds

    @pytest.mark.parametrize(
        ("answer", "reference"),
        [
            ("The plant is called bell heather.", "Cornish heath"),
            ("It was in 1896.", "1895"),
            ("It is not Cornish heath.", "It is Cornish heath."),
        ],
    )
    def test_another_answer_disagrees(self, answer: str, reference: str) -> None:
        """Another name, another number or a denial disagrees, both ways."""
        there, back = agreement("What is the plant called?", answer, reference)
        assert not there.holds
        assert not back.holds

    def test_a_longer_answer_states_the_reference(self) -> None:
        """An answer that adds to the reference still states it."""
        question = "Where is the head office of the hotel company?"
        _, back = agreement(question, "Its head office is in Delhi, where it began.", "Delhi")
        assert back.holds


class TestEntities:
    async def test_entities_are_found_after_folding(self) -> None:
        """Case, accents and grouping do not hide an entity; a chunk number is the reason."""
        task = JudgeTask(
            wanted=frozenset({Finding.ENTITIES_FOUND}),
            question="q",
            chunks=("nothing", "SAO PAULO has 1000 parks"),
            entities=("São Paulo", "1,000", "Lima"),
        )
        found = made((await task.by(LocalJudge())).entities_found)
        assert [verdict.holds for verdict in found] == [True, True, False]
        assert "2" in found[0].reason

    def test_entities_come_from_the_reference(self) -> None:
        """Names, dates and numbers of the reference are its entities."""
        assert entities_of("Botallack closed in 1895.") == ("Botallack", "1895")


RUBRICS = frozenset({Finding.GEVAL, Finding.CORRECTNESS, Finding.ALIGNMENT, Finding.ATTITUDE})
GRADES = frozenset(
    {Finding.ACCURACY_RATINGS, Finding.CONTEXT_RATINGS, Finding.GROUNDEDNESS_RATINGS}
)


def direct_relevance(question: str, answer: str, judge: LocalJudge | None = None) -> float:
    task = JudgeTask(wanted=frozenset({Finding.DIRECT_RELEVANCE}), question=question, answer=answer)
    return made(asyncio.run(task.by(judge or LocalJudge())).direct_relevance)


def is_correct(question: str, answer: str, reference: str) -> Verdict:
    task = JudgeTask(
        wanted=frozenset({Finding.CLASSIFICATION}),
        question=question,
        answer=answer,
        reference=reference,
    )
    return made(asyncio.run(task.by(LocalJudge())).classification)


def stance(answer: str | None, reference: str | None = None) -> Stance:
    task = JudgeTask(
        wanted=frozenset({Finding.STANCE}), question="q", answer=answer, reference=reference
    )
    return made(asyncio.run(task.by(LocalJudge())).stance)


@pytest.mark.parametrize(
    ("reference", "answer", "correct"),
    [
        ("USA / United States / America", "It is in the United States.", True),
        ("USA / United States / America", "It is in Canada.", False),
        ("Jupiter (the Roman god)", "They mean Jupiter.", True),
        ("James P. Flynn", "The judge was played by Jimmy Flynn.", True),
        ("James P. Flynn", "The judge was played by Errol Flynn.", False),
        ("February 19, 2017", "It started in February 2017.", True),
        ("February 19, 2017", "It started in March 2017.", False),
        ("Massachusetts", "It was filmed in Massachusetts1.", True),
        ("Jupiter (the Roman god)", "They do not mean Jupiter.", False),
    ],
)
def test_short_references_have_other_forms(reference: str, answer: str, correct: bool) -> None:
    """One alias is enough; a date in part and a short given name are no other answer."""
    assert is_correct("What is it?", answer, reference).holds is correct


class TestRating:
    async def test_nothing_is_rated_by_a_rubric(self) -> None:
        """Rubrics and grades, which rules cannot apply, are absent and never guessed."""
        rate = JudgeTask(
            wanted=RUBRICS | {Finding.CLASSIFICATION},
            question="q",
            answer="Delhi",
            reference="Delhi",
        )
        grade = JudgeTask(wanted=GRADES, question="q", chunks=("c",), answer="a", reference="a")
        why = NotScored(
            Cause.MISSING_INPUT, "the embedded judge generates no questions and rates by no rubric"
        )
        rated, graded = await rate.by(LocalJudge()), await grade.by(LocalJudge())
        assert all(getattr(rated, kind) == why for kind in RUBRICS)
        assert all(getattr(graded, kind) == why for kind in GRADES)
        assert made(rated.classification).holds
        assert not rated.asked(Finding.DIRECT_RELEVANCE)

    @pytest.mark.parametrize(
        ("answer", "correct"),
        [
            ("Delhi", True),
            ("The head office is in Delhi, where it began.", True),
            ("The head office is in Mumbai.", False),
            ("The head office is not in Delhi.", False),
            ("I don't know.", False),
            ("", False),
        ],
    )
    def test_an_answer_that_states_the_reference_is_correct(
        self, answer: str, correct: bool
    ) -> None:
        """Correct is what states the reference and does not deny it."""
        found = is_correct("Where is the head office?", answer, "Delhi")
        assert found.holds == correct
        assert found.reason

    def test_all_of_the_reference_must_be_stated(self) -> None:
        """An answer that leaves out a statement of the reference is not correct."""
        reference = "Tin was mined until 1895. The mine employed 604 people."
        question = "What was mined?"
        assert is_correct(question, f"At first: {reference}", reference).holds
        assert not is_correct(question, "Tin was mined until 1895.", reference).holds

    def test_direct_relevance_follows_the_question(self) -> None:
        """The more of the question an answer takes up, the more direct it is."""
        question = "Which company opened the tin mine near Botallack in Cornwall?"
        degrees = [
            "I don't know.",
            "Bread is baked from flour, water, yeast and salt in an oven every morning.",
            "The tin trade had a hard year, with low prices and many ships lost at sea.",
            "The tin mine near Botallack was opened by the Crowns company of Cornwall.",
        ]
        found = [direct_relevance(question, answer) for answer in degrees]
        assert found == sorted(found)
        assert found[0] == found[1] == 0.0
        assert found[3] == 1.0

    def test_a_short_answer_need_not_repeat_the_question(self) -> None:
        """A bare answer is not taken for an irrelevant one."""
        assert direct_relevance("Where is the head office of the hotel company?", "Delhi") >= 0.5

    def test_the_cosine_raises_direct_relevance(self) -> None:
        """With an embedder, an answer close in meaning is more direct than its words show."""
        judge = LocalJudge(Fixed(("physician", "doctor")))
        question = "Which physician healed patients in the villages of the valley?"
        answer = "A doctor came every week on horseback to see whoever was ill in the hamlets."
        assert direct_relevance(question, answer, judge) > direct_relevance(question, answer)

    @given(st.text(max_size=80), st.text(max_size=80))
    def test_direct_relevance_has_five_steps(self, question: str, answer: str) -> None:
        """Any texts give 0, a quarter, a half, three quarters or 1."""
        assert direct_relevance(question, answer) in (0.0, 0.25, 0.5, 0.75, 1.0)


class TestStance:
    @pytest.mark.parametrize(
        "text",
        [
            "I don't know.",
            "Unable to answer based on given passages.",
            "It depends, maybe, on many things.",
            "What do you mean?",
            " ",
        ],
    )
    def test_what_states_nothing_is_indistinct(self, text: str) -> None:
        """A refusal, a bare hedge, a question and a blank text are indistinct."""
        assert stance(text, "Delhi") == Stance(True, False)
        assert stance("Delhi", text) == Stance(False, True)

    @pytest.mark.parametrize(
        "text", ["Delhi", "It may be Delhi.", "Perhaps 604 people.", "It is the unknown soldier."]
    )
    def test_what_can_be_checked_is_distinct(self, text: str) -> None:
        """A name, a number or a plain statement can be checked, hedged or not."""
        assert stance(text) == Stance(False, False)


class Fixed:
    """An embedder that gives each text the vector of the first topic word it holds."""

    name = "fixed"

    def __init__(self, *topics: tuple[str, ...]) -> None:
        self._topics = topics
        self.seen: list[str] = []
        self.closed = False

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        self.seen += texts
        return [[float(any(w in t for w in words)) for words in self._topics] for t in texts]

    async def aclose(self) -> None:
        self.closed = True


class TestEmbedder:
    CLAIM = "The physician treated the sick."
    CHUNK = "The doctor looked after ill people in their houses, the physician said."

    def test_a_cosine_is_no_support(self) -> None:
        """Closeness in meaning says that two sentences share a subject, not that one follows."""
        judge = LocalJudge(Fixed(("physician", "doctor"), ("train",)))
        assert support(self.CLAIM, self.CHUNK, judge=judge) == support(self.CLAIM, self.CHUNK)

    def test_a_conflict_outweighs_the_cosine(self) -> None:
        """However close two sentences are, a number that differs is no support."""
        judge = LocalJudge(
            Fixed(
                ("physician", "doctor"),
            )
        )
        assert not support("The physician treated 12 sick.", self.CHUNK, judge=judge).supported

    def test_the_cosine_raises_relevance(self) -> None:
        """A chunk that is close to the question rates higher than by words alone."""
        judge = LocalJudge(
            Fixed(
                ("healing", "doctor"),
            )
        )
        question = "Who does the healing?"
        assert (
            relevance(question, self.CHUNK, judge=judge)[0].rating
            > relevance(question, self.CHUNK)[0].rating
        )

    async def test_each_text_is_embedded_once_and_the_embedder_closed(self) -> None:
        """One task embeds each distinct text once; closing the judge closes its embedder."""
        embedder = Fixed(("a",))
        judge = LocalJudge(embedder)
        task = JudgeTask(
            wanted=frozenset({Finding.ANSWER_SUPPORT, Finding.RELEVANCE}),
            question="q",
            chunks=("Same text.", "Same text."),
            answer_claims=("Same text.",),
        )
        await task.by(judge)
        await judge.aclose()
        assert sorted(embedder.seen) == ["Same text.", "q"]
        assert judge.name == "embedded+fixed"
        assert embedder.closed


def test_no_order_of_a_set_reaches_a_score(tmp_path: Path) -> None:
    """Every process gives the same verdicts and probabilities, however it hashes texts."""
    code = f"""
        from random import Random
        from tests.unit.test_local_judge import support

        chance = Random({run_seed()})
        words = [str(n) + "abcdefgh"[n % 8] * 4 for n in range(100, 140)]
        for _ in range(60):
            chunks = [" ".join(chance.sample(words, 12)) + "." for _ in range(3)]
            claim = " ".join(chance.sample(chunks[0][:-1].split(), 9))
            print(support(claim, *chunks))
        """
    first, second = (run_script(tmp_path, code, PYTHONHASHSEED=seed) for seed in ("1", "2"))
    assert first == second


def test_cost_grows_in_line_with_the_text() -> None:
    """Ten times the text costs about ten times the time, not a hundred times."""

    def cost(copies: int) -> float:
        chunk = " ".join(f"Mine {i} employed {i * 7} people near Botallack." for i in range(copies))
        start = time.process_time()
        support("Mine 7 employed 49 people near Botallack.", chunk, chunk)
        return time.process_time() - start

    # The least of several: anything else that the machine does only adds.
    short, long = (min(cost(copies) for _ in range(5)) for copies in (100, 1000))
    assert long < 40 * max(short, 0.001)


def test_a_claim_of_small_words_is_supported_word_for_word() -> None:
    """A claim without a content word is supported where it is said in the same words only."""
    assert support("It is what it is.", "As they say: it is what it is.").supported
    assert not support("It is what it is.", "It was what it was.").supported


async def test_underscores_within_words_are_kept() -> None:
    """A name such as `max_tokens` is no emphasis: claims keep it as it stands in the chunk."""
    answer = "The max_tokens and stop_words options cut the __reply__ off."
    task = JudgeTask(wanted=frozenset({Finding.ANSWER_CLAIMS}), question="q", answer=answer)
    (claim,) = (await task.by(LocalJudge(None))).answer_claims  # type: ignore[misc]
    assert claim == "The max_tokens and stop_words options cut the reply off."
