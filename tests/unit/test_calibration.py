"""Laws of calibration: probabilities become shares, and a judge that knows nothing is refused."""

from __future__ import annotations

import io
import json
import math
import random
import tempfile
from contextlib import redirect_stdout
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from rag_eval_hooks.cli.main import main
from rag_eval_hooks.findings import ClaimVerdict, Support
from rag_eval_hooks.judges.calibration import (
    LEAST_AUROC,
    Calibration,
    agreement,
    calibration_error,
    fitted,
)
from rag_eval_hooks.judges.heuristic import HeuristicJudge


def drawn(
    rng: random.Random, count: int, slope: float, shift: float
) -> tuple[list[float], list[bool]]:
    odds = [rng.gauss(0, 2) for _ in range(count)]
    truths = [rng.random() < 1 / (1 + math.exp(-(slope * x + shift))) for x in odds]
    return [1 / (1 + math.exp(-x)) for x in odds], truths


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
        score |= {"annotator": "heuristic", "version": "0.0+heuristic.9"}
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
    text = capsys.readouterr().out
    for word in ("AUROC", "kappa", "balanced accuracy", "best cut", "calibration error"):
        assert word in text
    assert "labels             120" in text
    made = Calibration.read(tmp_path / "made.json")
    assert made == replace(fitted(probabilities, truths), judge="heuristic", version="heuristic.9")
    assert not HeuristicJudge(calibration=tmp_path / "made.json").screening


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
@settings(max_examples=30, deadline=None)
def test_judge_whose_auroc_may_be_too_low_is_refused(seed: int, number: int, slope: float) -> None:
    probabilities, truths = drawn(random.Random(seed), number, slope, 0.0)
    assume(len(set(truths)) == 2)
    with tempfile.TemporaryDirectory() as folder, redirect_stdout(io.StringIO()) as told:
        code = main(written(Path(folder), probabilities, truths))
        assert Path(folder, "made.json").exists() is (code == 0)
    is_refused = agreement(probabilities, truths).low < LEAST_AUROC
    assert (code, "rejected" in told.getvalue()) == (int(is_refused), is_refused)
