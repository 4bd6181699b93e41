"""Laws of the heuristic judge and of calibration, on drawn names, values and labels."""

from __future__ import annotations

import asyncio
import io
import json
import math
import os
import random
import tempfile
import textwrap
from contextlib import redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from rag_eval_hooks.cli.main import main
from rag_eval_hooks.findings import ClaimVerdict, Finding, Findings, Support, made
from rag_eval_hooks.judges.calibration import LEAST_AUROC, Calibration, agreement, fitted
from rag_eval_hooks.judges.heuristic.judge import HeuristicJudge
from rag_eval_hooks.judges.heuristic.reference import claims, classification
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


@settings(max_examples=size(120, 600))
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
    words = {"a": a, "b": b, "n": n, "sentence": sentence, "bare": sentence.rstrip(".")}
    words |= {"other_value": form.format(a=a, b=b, n=other)}
    words |= {"other_name": form.format(a=a, b=name, n=n), "exchanged": form.format(a=b, b=a, n=n)}
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
    code = textwrap.dedent("""
        from rag_eval_hooks import RagEval
        chunk = "The mill of Arden was closed by Breck after 40 days. Most visitors come by train."
        with RagEval("ragas", embedder="none") as evals:
            print(evals.evaluate({"question": "Who closed it?", "contexts": [chunk, chunk[:20]],
                                  "answer": "Breck closed the mill of Arden. Visitors like it."}))
    """)
    with redirect_stdout(io.StringIO()) as here:
        exec(code, {})
    own = os.environ.get("PYTHONHASHSEED")
    for seed in size(("77",), ("0", "1", "77")):
        there = run_script(tmp_path, code, PYTHONHASHSEED="78" if seed == own else seed)
        assert there == here.getvalue()


# Laws of calibration: probabilities become shares, and a judge that knows nothing is refused.


def drawn(
    rng: random.Random, count: int, slope: float, shift: float
) -> tuple[list[float], list[bool]]:
    odds = [rng.gauss(0, 2) for _ in range(count)]
    truths = [rng.random() < 1 / (1 + math.exp(-(slope * x + shift))) for x in odds]
    return [1 / (1 + math.exp(-x)) for x in odds], truths


def calibration_error(probabilities: list[float], truths: list[bool]) -> float:
    curve = agreement(probabilities, truths).curve
    return sum(abs(mean - share) * count for mean, share, count in curve) / len(truths)


def test_fit_of_200_labels_halves_the_error_on_others() -> None:
    for leaning in ((0.3, -1.0), (1.0, -2.0), (0.4, 1.2)):
        rng = random.Random(3)
        made = fitted(*drawn(rng, 200, *leaning))
        others, truths = drawn(rng, 4000, *leaning)
        before = calibration_error(others, truths)
        assert calibration_error([made.apply(p) for p in others], truths) <= before / 2, leaning


ROWS = st.lists(st.tuples(st.floats(0, 1), st.booleans(), st.integers(0, 20)), min_size=2)


@given(ROWS)
def test_agreement_is_that_of_its_definitions(rows: list[tuple[float, bool, int]]) -> None:
    probabilities, truths = [p for p, _, _ in rows], [truth for _, truth, _ in rows]
    assume(len(set(truths)) == 2)
    found = agreement(probabilities, truths)
    pairs = [(p, n) for p, a, _ in rows if a for n, b, _ in rows if not b]
    assert found.auroc == pytest.approx(sum((p > n) + (p == n) / 2 for p, n in pairs) / len(pairs))
    assert found.low <= found.auroc <= found.high
    applied = [fitted(probabilities, truths).apply(p) for p in probabilities]
    assert all(0 <= p <= 1 for p in applied)


def written(folder: Path, probabilities: list[float], truths: list[bool]) -> list[str]:
    results, labels = folder / "results.jsonl", folder / "labels.jsonl"
    lines, told = [], []
    for number, (probability, truth) in enumerate(zip(probabilities, truths, strict=True)):
        claim = {"claim": f"claim {number}", "supported": True, "probability": probability}
        sample = {"question": "q", "sample_id": f"s{number}", "answer": "a", "contexts": ["c"]}
        score = {"value": 1.0, "normalized": 1.0, "explanation": {"claims": [claim]}}
        score |= {"annotator": "heuristic", "version": "0.0+heuristic.10"}
        lines.append({"sample": sample, "outcomes": {"ragas.faithfulness": score}})
        told.append({"sample_id": f"s{number}", "supported": truth})
        if number % 2:
            told[-1]["claim"] = f"claim {number}"
    results.write_text("".join(json.dumps(line) + "\n" for line in lines))
    labels.write_text("".join(json.dumps(line) + "\n" for line in told))
    return ["calibrate", str(results), str(labels), "-o", str(folder / "made.json")]


def test_calibrate_writes_a_file_that_the_judge_reads(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    probabilities, truths = drawn(random.Random(1), 120, 1.0, -1.0)
    assert main(written(tmp_path, probabilities, truths)) == 0
    assert "labels             120" in capsys.readouterr().out
    made = Calibration.read(tmp_path / "made.json")
    assert made == replace(fitted(probabilities, truths), judge="heuristic heuristic.10")
    judge = HeuristicJudge(calibration=tmp_path / "made.json")
    assert not judge.screening
    assert judge.name == f"heuristic (calibrated n=120, AUROC {made.auroc:.2f})"


UNIT = st.floats(0, 1)


@given(UNIT, UNIT, st.sampled_from(ClaimVerdict), st.floats(0.3, 2), st.floats(-2, 2))
def test_calibrated_verdict_follows_the_cut_unless_contradicted(
    probability: float, cut: float, verdict: ClaimVerdict, slope: float, shift: float
) -> None:
    made = Calibration(slope=slope, intercept=shift, cut=cut)
    supported = verdict is ClaimVerdict.SUPPORTED
    found = made.judged(Support((supported,), verdict=verdict, probability=probability))
    assert found.probability == made.apply(probability)
    if verdict is ClaimVerdict.CONTRADICTED:
        assert found.verdict is ClaimVerdict.CONTRADICTED
    else:
        assert found.sure
        assert found.supported is (made.apply(probability) >= cut)


@given(st.integers(0, 2**32), st.sampled_from([50, 60, 400]), st.floats(0.0, 1.5))
@settings(max_examples=size(15, 60), deadline=None)
def test_judge_whose_auroc_may_be_too_low_is_refused(seed: int, number: int, slope: float) -> None:
    probabilities, truths = drawn(random.Random(seed), number, slope, 0.0)
    assume(len(set(truths)) == 2)
    with tempfile.TemporaryDirectory() as folder, redirect_stdout(io.StringIO()) as told:
        code = main(written(Path(folder), probabilities, truths))
        assert Path(folder, "made.json").exists() is (code == 0)
    is_refused = agreement(probabilities, truths).low < LEAST_AUROC
    assert (code, "rejected" in told.getvalue()) == (int(is_refused), is_refused)


@given(st.permutations(["Arden", "Breck", "Tervo"]), st.permutations([*range(1900, 1990)]))
def test_answer_is_correct_if_it_gives_one_reference_in_any_form(
    names: list[str], years: list[int]
) -> None:
    (first, last, other), (year, wrong, *_) = names, years
    who, when = "Who built the bridge?", "When was the bridge built?"
    for question, answer, reference, correct in (
        (who, f"{first[0]}. {last} built it in {year}.", f"{first} {last}", True),
        (who, f"It was built by {first} {other} {last}.", f"{first} {last}", True),
        (who, f"{other} {last} built the bridge.", f"{first} {last}", other[0] == first[0]),
        (who, f"It was not {last}.", last, False),
        (who, "The builders were The Who", "The Who", True),
        (who, f"{last}, a local company, built it.", f"{last} (company)", True),
        (when, f"The bridge was built in {year}.", f"{year}/in {year}", True),
        (when, f"The bridge was built in {wrong}.", f"{year}/in {year}", False),
    ):
        found = classification(question, answer, reference)
        assert found.holds is correct, (answer, reference, found.reason)
