"""Laws of the heuristic judge, on drawn names, values and passages."""

from __future__ import annotations

import asyncio
from typing import Any

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from rag_eval_hooks.findings import ClaimVerdict, Finding, Findings, Support, made
from rag_eval_hooks.judges.heuristic import HeuristicJudge
from rag_eval_hooks.judges.heuristic.claims import claims
from rag_eval_hooks.sample import Sample
from tests.support.scripts import run_script
from tests.support.size import size

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


def support(claim: str, *chunks: str) -> Support:
    sample = Sample(question="what?", contexts=list(chunks))  # type: ignore[arg-type]
    wanted, known = frozenset({Finding.ANSWER_SUPPORT}), Findings(answer_claims=(claim,))
    found = asyncio.run(HeuristicJudge().make(sample, wanted, known))
    (verdict,) = made(found.answer_support)
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
PAIRS: list[tuple[str, str, ClaimVerdict | None]] = [
    ("{sentence}", "{sentence}", SUPPORTED),
    ("{sentence}", "The handbook says {bare}.", SUPPORTED),
    ("{sentence}", "In spring {bare} but the harbor master retired.", SUPPORTED),
    ("{sentence}", "{bare} and closes early on holidays.", SUPPORTED),
    (LONG % ("rejected", "new"), LONG % ("rejected", "new wooden foot"), SUPPORTED),
    (LONG % ("welcomed", "wooden"), LONG % ("rejected", "wooden"), None),
    ("{other_value}", "{sentence}", CONTRADICTED),
    (NO_FEE, FEE, CONTRADICTED),
    (NO_FEE.replace("not", "n\u200bot"), FEE, CONTRADICTED),
    ("{other_name}", "{sentence}", NOT_STATED),
    ("{exchanged}", "{sentence}", None),
    ("{sentence}", "If the council agrees, {sentence}", None),
    ("{sentence}", "It is a myth that {sentence}", None),
    ("{sentence}", "{bare} unless it rains.", None),
]
"""Claim, what a chunk states, and the verdict; None: any but supported."""


@settings(max_examples=size(200, 600))
@given(st.sampled_from(PAIRS), facts(), NAMES, NUMBERS)
def test_support_of_a_drawn_claim_is_what_its_chunk_states(
    pair: tuple[str, str, ClaimVerdict | None],
    fact: tuple[str, str, str, int],
    name: str,
    other: int,
) -> None:
    claim, stated, verdict = pair
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


@settings(max_examples=50)
@given(st.text(max_size=80), st.lists(st.text(max_size=80), min_size=1, max_size=3))
def test_any_text_has_claims_and_one_flag_a_chunk(claim: str, chunks: list[str]) -> None:
    verdict, found = support(claim, *chunks), claims(claim)
    assert len(verdict.by_chunk) == len(chunks)
    assert verdict.reason
    assert verdict.probability is not None
    assert len(set(found)) == len(found)
    assert all(map(str.strip, found))


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
