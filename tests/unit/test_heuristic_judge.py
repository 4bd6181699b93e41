"""Laws of the heuristic judge, on drawn names, values and passages."""

# ruff: noqa: RUF001 - it is about such characters

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from rag_eval_hooks import RagEval
from rag_eval_hooks.findings import ClaimVerdict, Finding, Findings, Stance, Support, made
from rag_eval_hooks.judges.heuristic import HeuristicJudge
from rag_eval_hooks.judges.heuristic.claims import claims
from rag_eval_hooks.judges.heuristic.reference import classification
from rag_eval_hooks.sample import Sample
from rag_eval_hooks.score import outcome_from_dict, outcome_to_dict
from tests.servers.brain import WordEmbedder
from tests.support.scripts import run_script

NAMES = st.sampled_from(
    ["Arden", "Breck", "Tervo", "Norland", "Velling", "Marsk", "Kirrel", "Hovedan"]
)
NUMBERS = st.integers(21, 999)
SENTENCES = (
    "{a} sold the harbor to {b} for {n} euros.",
    "The mill of {a} was closed by {b} after {n} days.",
    "{a} pays {b} a fee of {n} pounds for every barrel.",
    "The ferry from {a} to {b} carries {n} passengers.",
)
FILLER = (
    "The weather on the coast is mild and the roads are narrow. Most visitors come by train. "
    "Local bakeries open early, and the market hall is busy on weekends."
)
TAGS = (
    "[fares.md] {}",
    "{} [fares.md]",
    "# Overview\n\n{}",
    "- {}",
    "1. {}",
    "Notes\n{}",
    "[3] {}",
)


def find(kind: Finding, question: str = "", chunks: Sequence[str] = (), **given: Any) -> Any:
    known = Findings(**{name: given.pop(name) for name in list(given) if name.endswith("_claims")})
    sample = Sample(question=question, contexts=list(chunks), **given)  # type: ignore[arg-type]
    judge = given.get("judge", HeuristicJudge())
    found = asyncio.run(judge.make(sample, frozenset({kind}), known))
    return made(getattr(found, kind))


def support(claim: str, *chunks: str, question: str = "what?") -> Support:
    (verdict,) = find(Finding.ANSWER_SUPPORT, question, chunks, answer_claims=(claim,))
    assert isinstance(verdict, Support)
    return verdict


@st.composite
def facts(draw: st.DrawFn) -> tuple[str, str, str, int]:
    a, b = draw(st.lists(NAMES, min_size=2, max_size=2, unique=True))
    return draw(st.sampled_from(SENTENCES)), a, b, draw(NUMBERS)


def passage(sentence: str) -> str:
    return f"{FILLER} {sentence} {FILLER}"


FEE = "{a} does pay {b} a fee of {n} pounds."
NO_FEE = FEE.replace("does", "does not")
LONG = "The council of {a} %s the plan to build a %s bridge to {b} for {n} million euros."
SUPPORTED, CONTRADICTED, NOT_STATED = map(ClaimVerdict, ("supported", "contradicted", "not_stated"))
PAIRS = [
    ("{sentence}", "{sentence}", SUPPORTED),
    ("{sentence}", "{bare}, says the handbook.", SUPPORTED),
    ("{sentence}", "The handbook says {bare}.", SUPPORTED),
    ("{sentence}", "According to the handbook, {bare}.", SUPPORTED),
    ("{sentence}", "{bare}, the handbook reports.", SUPPORTED),
    ("{sentence}", "In spring {bare} but the harbor master retired.", SUPPORTED),
    ("{sentence}", "{bare} and closes early on holidays.", SUPPORTED),
    (LONG % ("rejected", "new"), LONG % ("rejected", "new wooden foot"), SUPPORTED),
    (LONG % ("withdrew", "wooden"), LONG % ("withdrew", "wooden"), SUPPORTED),
    (LONG % ("welcomed", "wooden"), LONG % ("rejected", "wooden"), None),
    (LONG % ("postponed", "wooden"), LONG % ("praised", "wooden"), None),
    ("{other_value}", "{sentence}", CONTRADICTED),
    (NO_FEE, FEE, CONTRADICTED),
    (FEE, NO_FEE, CONTRADICTED),
    *(
        (NO_FEE.replace("not", f"n{mark}ot"), FEE, CONTRADICTED)
        for mark in "\u200b\u00ad\u2060\ufeff"
    ),
    ("{other_name}", "{sentence}", NOT_STATED),
    ("{exchanged}", "{sentence}", None),
    ("{sentence}", "If the council agrees, {sentence}", None),
    ("{sentence}", "It is a myth that {sentence}", None),
    ("{sentence}", "Critics claim that {sentence}", None),
    ("{sentence}", "{bare} unless it rains.", None),
    ("{sentence}", "Only in leap years {sentence}", None),
    ("{sentence}", "Until 1950 {sentence}", None),
]
"""Claim, what a chunk states, and the verdict; None: any but supported."""


@pytest.mark.parametrize(("claim", "stated", "verdict"), PAIRS)
@settings(max_examples=25)
@given(facts(), NAMES, NUMBERS)
def test_support_of_a_drawn_claim_is_what_its_chunk_states(
    claim: str,
    stated: str,
    verdict: ClaimVerdict | None,
    fact: tuple[str, str, str, int],
    name: str,
    other: int,
) -> None:
    form, a, b, n = fact
    assume(name not in (a, b) and other != n)
    sentence = form.format(a=a, b=b, n=n)
    words = {
        "a": a,
        "b": b,
        "n": n,
        "sentence": sentence,
        "bare": sentence.rstrip("."),
        "other_value": form.format(a=a, b=b, n=other),
        "other_name": form.format(a=a, b=name, n=n),
        "exchanged": form.format(a=b, b=a, n=n),
    }
    found = support(claim.format(**words), FILLER, passage(stated.format(**words)))
    if verdict is None:
        assert not found.supported
    else:
        assert found.verdict is verdict
        assert found.by_chunk == (False, verdict is SUPPORTED)
    if claim == "{other_value}":
        assert str(n) in found.reason
        assert (found.probability or 0.0) <= 0.1
    if claim == "{other_name}":
        assert name in found.reason


@given(facts(), st.sampled_from(TAGS), NUMBERS)
def test_support_with_a_tag_in_a_chunk_is_the_same(
    fact: tuple[str, str, str, int], tag: str, other: int
) -> None:
    form, a, b, n = fact
    claim, chunk = form.format(a=a, b=b, n=other), form.format(a=a, b=b, n=n)
    assert support(claim, tag.format(chunk)).verdict is support(claim, chunk).verdict
    assert support(chunk, tag.format(chunk)).supported


@pytest.mark.parametrize(
    ("claim", "chunk"),
    [
        ("The drug was withdrawn in 2012.", "The drug was approved in 2012."),
        ("The ticket costs 100 NOK.", "The ticket costs 100 SEK."),
        ("It has 5.2 million users.", "It has 5 million users."),
        ("The parcel weighs 5 lb.", "The parcel costs £5."),
        ("The CEO resigned.", "The CEO did not resign; the CFO did."),
        ("Anna married Ben.", "Anna did not marry Ben, she married Carl."),
        ("Sales rose by 20%.", "Sales rose to 20%."),
        ("The battery lasts 10 hours.", "The battery lasts at most 10 hours."),
        ("Paracetamol is safe with alcohol.", "Paracetamol is not known to be safe with alcohol."),
        ("Ferry.", "The ferry leaves at noon."),
        ("It opens at 19:00 and closes at 9:00.", "It opens at 9:00 and closes at 19:00."),
        (
            "The landlord must give the tenant written notice of three months before leaving.",
            "The tenant must give the landlord written notice of three months before leaving.",
        ),
        ("Der Zug hält nicht in Köln.", "Der Zug hält in Köln."),
        ("北京不是首都。", "北京是首都。"),
        ("القاهرة ليست عاصمة مصر.", "القاهرة عاصمة مصر."),
        ("Il treno ferma a Pisa.", "Il treno non ferma a Pisa."),
    ],
)
def test_support_that_differs_in_one_word_is_never_supported(claim: str, chunk: str) -> None:
    assert not support(claim, chunk).supported


@pytest.mark.parametrize(
    ("claim", "chunk", "supported"),
    [
        ("The crossing takes 105 minutes.", "The crossing takes 1 hour and 45 minutes.", True),
        ("The path is about 5 km long.", "The path is 4.9 km long.", True),
        ("The path is 1500 metres long.", "The path is 1.5 km long.", True),
        ("It serves 5.2 million people.", "It serves 5,214,803 people.", True),
        ("The crossing takes 30 minutes.", "The crossing takes half an hour.", False),
        ("Of the staff 50 % commute.", "Half of the staff commute by train.", False),
        ("The oven reaches 38 °C.", "The oven reaches 100 °F.", True),
        ("It opened on 1 May 1990.", "It opened on 1990-05-01.", True),
        ("The fair opens on 14 May.", "The fair opens on 14 to 16 May.", True),
        ("It has more than 50 rooms.", "It has 60 rooms.", False),
        ("It has at least 50 rooms.", "It has 60 rooms.", False),
    ],
)
def test_support_of_a_value_in_another_form_is_never_refuted(
    claim: str, chunk: str, supported: bool
) -> None:
    found = support(claim, chunk)
    assert found.supported is supported
    assert found.supported or not found.sure


@settings(max_examples=50)
@given(st.text(max_size=80), st.lists(st.text(max_size=80), min_size=1, max_size=3))
def test_any_text_has_claims_and_one_flag_a_chunk(claim: str, chunks: list[str]) -> None:
    verdict, found = support(claim, *chunks), claims(claim)
    assert len(verdict.by_chunk) == len(chunks)
    assert verdict.reason
    assert verdict.probability is not None
    assert len(set(found)) == len(found)
    assert all(map(str.strip, found))


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("Cornish heath", ("Cornish heath",)),
        ("It grows. It flowers. It grows.", ("It grows.", "It flowers.")),
        ("Is it? It is green.", ("It is green.",)),
        (
            "Based on the given passages, here are the steps:\n\n1. Mix the soda.\n2. Wash it.",
            ("Mix the soda.", "Wash it."),
        ),
        ("According to passage 2, heath is pink (Passage 1).", ("heath is pink.",)),
        ("## Rates\nThe rate is 5% [2].", ("The rate is 5%.",)),
        ("The passages do not mention the price.", ()),
        ("1. 北京是首都。\n2. 上海很大。你去过吗？", ("北京是首都。", "上海很大。")),
        ("東京は首都です。大阪は商業の都市です。", ("東京は首都です。", "大阪は商業の都市です。")),
        ("النيل طويل. أين تقع؟ القاهرة كبيرة.", ("النيل طويل.", "القاهرة كبيرة.")),
        (
            "Der Turm ist 368 m hoch; er steht seit 1969 am Alexanderplatz.",
            ("Der Turm ist 368 m hoch", "er steht seit 1969 am Alexanderplatz."),
        ),
    ],
)
def test_claims_are_statements_without_markers_and_talk(
    answer: str, expected: tuple[str, ...]
) -> None:
    assert claims(answer) == expected


@pytest.mark.parametrize(
    ("answer", "reference", "correct"),
    [
        ("The head office is in Delhi.", "Delhi", True),
        ("The head office is not in Delhi.", "Delhi", False),
        ("It opened in 1896.", "1895", False),
        ("Python3", "Python3", True),
        ("Windows11", "Windows11", True),
        ("It was the United States1.", "USA / United States", True),
        ("It was J. Austen.", "Jane Austen", True),
        ("中国的首都是北京。", "北京", True),
        ("中国的首都是上海。", "北京", False),
        ("中国的首都不是北京。", "北京", False),
        ("首都は東京です。", "東京", True),
        ("首都は大阪です。", "東京", False),
        ("عاصمة مصر هي القاهرة.", "القاهرة", True),
        ("عاصمة مصر هي أسوان.", "القاهرة", False),
        ("Der Turm ist 368 m hoch.", "368 m", True),
        ("Der Turm ist 300 m hoch.", "368 m", False),
    ],
)
def test_classification_compares_answer_and_reference(
    answer: str, reference: str, correct: bool
) -> None:
    assert classification("What is it?", answer, reference).holds is correct


def test_stance_of_an_answer_that_states_nothing_is_indistinct() -> None:
    empty = ["我不知道。", "申し訳ありませんが、わかりません。", "لا أعرف الجواب."]
    empty += ["Das weiß ich leider nicht.", "It might be something else."]
    for answer in (*empty, "北京是首都。", "القاهرة عاصمة مصر.", "It might be Breck."):
        expected = Stance(answer in empty, answer in empty)
        assert find(Finding.STANCE, answer=answer, reference=answer) == expected


@given(facts())
def test_relevance_of_the_answering_chunk_is_highest(fact: tuple[str, str, str, int]) -> None:
    form, a, b, n = fact
    chunk = passage(form.format(a=a, b=b, n=n))
    first, second = find(Finding.RELEVANCE, f"What do {a} and {b} share?", [FILLER, chunk])
    assert second.rating > first.rating
    assert second.useful
    assert not first.useful


@settings(max_examples=5)
@given(facts())
def test_scores_do_not_depend_on_an_embedder(fact: tuple[str, str, str, int]) -> None:
    form, a, b, n = fact
    chunk = form.format(a=a, b=b, n=n)
    sample = {"question": f"What of {a}?", "contexts": [FILLER, chunk], "answer": f"{b} did."}
    sample |= {"reference": chunk}
    found = []
    for embedder in ("none", WordEmbedder()):
        with RagEval(["ragas.noise_sensitivity", "graphrag"], embedder=embedder) as evals:
            outcomes = evals.evaluate(sample)
        found.append({n: o for n, o in outcomes.items() if getattr(o, "judged", False)})
    assert found[0]
    assert found[0].items() <= found[1].items()


def test_scores_do_not_depend_on_the_hash_seed(tmp_path: Any) -> None:
    code = """
        from rag_eval_hooks import RagEval
        chunk = "The mill of Arden was closed by Breck after 40 days. Most visitors come by train."
        with RagEval("ragas", embedder="none") as evals:
            print(evals.evaluate({"question": "Who closed it?", "contexts": [chunk, chunk[:20]],
                                  "answer": "Breck closed the mill of Arden. Visitors like it."}))
    """
    seeds = ("0", "1", "77")
    printed = {run_script(tmp_path, code, PYTHONHASHSEED=seed) for seed in seeds}
    assert len(printed) == 1


@settings(max_examples=5)
@given(facts())
def test_risk_stands_beside_scores_and_in_place_of_undecided_ones(
    fact: tuple[str, str, str, int],
) -> None:
    form, a, b, n = fact
    sentence = form.format(a=a, b=b, n=n)
    with RagEval("ragas.faithfulness", embedder="none") as evals:
        asked = {"question": "What is it?", "contexts": [passage(sentence)]}
        scored = evals.evaluate({**asked, "answer": sentence})["ragas.faithfulness"]
        open_ = evals.evaluate({**asked, "answer": "Divers found a sunken bell near the pier."})
    undecided = open_["ragas.faithfulness"]
    assert scored.value == 1.0
    assert undecided.value is None
    assert 0.0 <= (scored.risk or 0.0) < (undecided.risk or 0.0) <= 1.0
    assert outcome_from_dict(outcome_to_dict(undecided)) == undecided


@pytest.mark.parametrize("reference", ["/", "|", "-", "...", " / "])
def test_reference_without_a_letter_has_no_class(reference: str) -> None:
    sample = {"question": "q", "contexts": ["c"], "answer": "a b.", "reference": reference}
    with RagEval(["graphrag.answer_class"], embedder="none") as evals:
        outcome = evals.evaluate(sample)["graphrag.answer_class"]
    assert outcome.value is None
    assert outcome.cause == "undefined"
