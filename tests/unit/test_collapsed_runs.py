"""Long runs of one character change no verdict of the heuristic judge and take it no time."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_eval_hooks import Context, RagEval, Sample
from rag_eval_hooks.text.folding import collapse_runs

RUNS = st.sampled_from(" \t\n\u00a0\u3000.-_\"'0x\u0301中")


@given(st.lists(st.tuples(RUNS, st.integers(1, 5000)), max_size=6))
def test_collapse_runs_of_any_character_leaves_bounded_runs(parts: list[tuple[str, int]]) -> None:
    text = "a".join(char * count for char, count in parts)
    assert len(collapse_runs(text)) <= 41 * 2 * len(parts)


@given(st.text(st.characters(exclude_categories=["Cf", "Cs"]), max_size=200))
def test_collapse_runs_without_long_runs_returns_words_unchanged(text: str) -> None:
    assert collapse_runs(text).split() == text.split() or any(
        char * 40 in text for char in set(text)
    )


async def _scored(evals: RagEval, gap: str) -> tuple[float | None, float]:
    answer = f"The last ferry to Oslo{gap}leaves at 22:40."
    contexts = (Context(text="It leaves at 22:40."),)
    sample = Sample(question="When does it leave?", contexts=contexts, answer=answer)
    before = time.process_time()
    outcome = (await evals.aevaluate(sample))["ragas.faithfulness"]
    return getattr(outcome, "value", None), time.process_time() - before


@pytest.mark.parametrize("char", [" ", "\t", "\u00a0"])
async def test_embedded_judge_given_spaces_gives_the_score_of_one_space(char: str) -> None:
    with RagEval(["ragas.faithfulness"], embedder="none") as evals:
        expected, _ = await _scored(evals, " ")
        assert (await _scored(evals, char * 9_000))[0] == expected
