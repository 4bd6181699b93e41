"""The demo's quoting model and its LangChain form."""

from __future__ import annotations

import pytest
from langchain_core.prompts import ChatPromptTemplate

from rag_eval_hooks.cli.quoting import (
    NO_ANSWER,
    PROMPT,
    HashedTfidf,
    Mistake,
    PromptError,
    quote,
    reply,
)
from rag_eval_hooks_langchain.demo import ChatExtractive

LIFT = "The lift runs from 8:00 to 17:30."
DOGS = "Dogs are kept on a lead."
PRICE = "A day ticket costs 42 francs. It is sold at the foot of the hill."
PASSAGES = "\n\n".join((LIFT, DOGS, PRICE))


def filled(question: str, passages: str = PASSAGES) -> str:
    return PROMPT.format(passages=passages, question=question)


def test_answer_is_a_quotation() -> None:
    """An answer without a mistake is a sentence of the passages, and the one that fits."""
    assert reply(filled("What does a day ticket cost?")) == "A day ticket costs 42 francs."


def test_second_sentence_when_it_adds() -> None:
    """A second sentence is quoted when it holds what the first one lacks, in the text's order."""
    available = ["The house was built in 1911.", "Its architect was Mara Lund.", DOGS]
    question = "When was the house built and who was its architect?"
    assert quote(question, available) == " ".join(available[:2])


def test_no_answer_when_nothing_matches() -> None:
    """A question about something that the passages never mention is not answered."""
    assert reply(filled("Which museum shows porcelain?")) == NO_ANSWER


@pytest.mark.parametrize("question", ["", "?", "Who is it?"])
def test_no_answer_without_content_words(question: str) -> None:
    """A question without content words matches nothing."""
    assert reply(filled(question)) == NO_ANSWER


def test_no_answer_without_passages() -> None:
    """Without passages nothing can be quoted, with a mistake asked for or not."""
    question = "What does a day ticket cost?"
    for mistake in Mistake:
        assert DOGS not in reply(filled(question, ""), {question: mistake})
    assert reply(filled(question, "")) == NO_ANSWER


def test_only_the_prompt_is_known() -> None:
    """A question has another answer when the prompt holds other passages."""
    question = "What does a day ticket cost?"
    assert reply(filled(question, PRICE.replace("42", "17"))) == "A day ticket costs 17 francs."


def test_other_prompts_are_refused() -> None:
    """A text that is no such prompt is an error, not an answer."""
    with pytest.raises(PromptError):
        reply("What does a day ticket cost?")


@pytest.mark.parametrize(
    ("mistake", "expected"),
    [
        (Mistake.NUMBER, "The lift runs from 8:00 to 24:30."),
        (Mistake.OFF_TOPIC, DOGS),
    ],
)
def test_mistakes(mistake: Mistake, expected: str) -> None:
    """Each mistake changes the answer in its own way and leaves the rest as quoted."""
    question = "When does the lift run?"
    assert reply(filled(question), {question: mistake}) == expected


def test_negation() -> None:
    """A negated answer says the opposite of the quoted sentence."""
    question = "How are dogs kept?"
    assert reply(filled(question), {question: Mistake.NEGATED}) == "Dogs are not kept on a lead."


def test_invented_sentence() -> None:
    """An invented sentence stands in no passage and after the right answer."""
    question = "When does the lift run?"
    answer = reply(filled(question), {question: Mistake.INVENTED})
    assert answer.startswith(LIFT)
    assert answer.removeprefix(LIFT).strip()
    assert answer.removeprefix(LIFT).strip() not in PASSAGES


def test_mistakes_are_for_their_question_only() -> None:
    """A mistake for one question leaves the others right."""
    mistakes = {"When does the lift run?": Mistake.OFF_TOPIC}
    assert reply(filled("How are dogs kept?"), mistakes) == DOGS


def test_chat_model_reads_the_prompt_it_gets() -> None:
    """In a chain the chat model answers from the formatted prompt and names its model."""
    chain = ChatPromptTemplate.from_messages([("human", PROMPT)]) | ChatExtractive()
    message = chain.invoke({"passages": PASSAGES, "question": "How are dogs kept?"})
    assert message.content == DOGS
    assert message.response_metadata["model_name"] == "extractive"


def test_hashed_vectors_have_length_one() -> None:
    """Every text has a direction, one without content words too."""
    vectors = HashedTfidf([LIFT, DOGS, PRICE])
    for text in (LIFT, "", "who is it"):
        assert sum(value**2 for value in vectors.vector(text)) == pytest.approx(1.0)


def test_hashed_vectors_rank_by_shared_words() -> None:
    """A question is nearer to the text that shares its rare words than to the others."""
    texts = [LIFT, DOGS, PRICE]
    vectors = HashedTfidf(texts)
    asked = vectors.vector("What does a day ticket cost?")
    nearness = [sum(a * b for a, b in zip(asked, vectors.vector(t), strict=True)) for t in texts]
    assert nearness.index(max(nearness)) == 2
