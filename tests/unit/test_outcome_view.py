"""Results as a terminal and a notebook show them."""

from __future__ import annotations

import io
import random
import re
from collections.abc import Mapping
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_eval_hooks import Cause, NotScored, RagEval, Score, Stats
from rag_eval_hooks.delivery.console import ConsoleSink
from rag_eval_hooks.outcome_view import OutcomeTable, outcome_lines
from rag_eval_hooks.result import Evaluation
from rag_eval_hooks.score import Outcome
from tests.support.evaluation import sample

SIGNS = "ab <>&\"'é字\ud800\n"


class Cells(HTMLParser):
    """Collects the texts of a table's cells."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[list[str]] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        assert tag in ("table", "tr", "th", "td", "br")
        if tag == "tr":
            self.rows.append([])
        elif tag in ("th", "td"):
            self.rows[-1].append("")
        elif tag == "br":
            self.rows[-1][-1] += "\n"

    def handle_data(self, data: str) -> None:
        self.rows[-1][-1] += data


def cells(page: str) -> list[list[str]]:
    parser = Cells()
    parser.feed(page)
    parser.close()
    return parser.rows


def drawn(source: random.Random) -> dict[str, Outcome]:
    """Draw outcomes of every kind."""
    outcomes: dict[str, Outcome] = {}
    for number in range(source.randrange(1, 9)):
        text = "".join(source.choices(SIGNS, k=source.randrange(1, 40))).strip() or "x"
        value = source.random()
        claims = [{"claim": text, "supported": value > 0.5, "reason": text}]
        kinds: list[Outcome] = [
            Score(value=value, normalised=value, explanation={"claims": claims}),
            Score(value=value, normalised=value, explanation={"reason": text}, label=text),
            NotScored(source.choice([*Cause]), text),
        ]
        outcomes[f"suite.metric_{number}"] = source.choice(kinds)
    return outcomes


@pytest.mark.parametrize("seed", range(30))
def test_every_metric_has_its_row_the_worst_first(seed: int) -> None:
    """Values and reasons stand in the table, whatever signs they hold; texts make no markup."""
    outcomes = drawn(random.Random(seed))
    table = OutcomeTable(outcomes)
    assert table == outcomes
    rows = cells(table._repr_html_())
    assert sorted(row[0] for row in rows) == sorted(outcomes)
    scores = [row[1] for row in rows]
    values = [float(value) for value in scores if value != "-"]
    assert values == sorted(values)
    assert scores[: len(values)] == [f"{value:.2f}" for value in values]
    for name, _, _, reason in rows:
        outcome = outcomes[name]
        if isinstance(outcome, NotScored):
            assert reason == outcome.detail.replace("\ud800", "?")
        else:
            assert bool(reason) is (outcome.normalised < 0.8)
    shown = repr(table)
    assert shown.encode()
    assert re.findall(r"suite\.metric_\d", shown) == [row[0] for row in rows]


@pytest.mark.parametrize("seed", range(10))
def test_statistics_show_what_is_not_zero(seed: int) -> None:
    source = random.Random(seed)
    dropped = {name: source.randrange(1, 9) for name in source.sample(["budget", "a<b"], 2)}
    stats = Stats(offered=source.randrange(2), pending=source.randrange(2), dropped=dropped)
    shown = dict(cells(stats._repr_html_()))
    wanted: Mapping[str, object] = {"offered": stats.offered, "pending": stats.pending}
    words = ", ".join(f"{count} {name}" for name, count in dropped.items())
    assert shown == {
        **{name: str(count) for name, count in wanted.items() if count},
        "dropped": words,
    }


def test_a_notebook_shows_what_is_evaluated_and_what_became_of_it() -> None:
    with RagEval("lexical") as evals:
        evals.offer({"question": "q", "answer": "see page 1"})
        evals.flush()
        head, *counts = cells(evals._repr_html_())
    assert head[0] == repr(evals)
    assert "lexical.source_citation" in head[1]
    assert ["scored", "1"] in counts


@pytest.mark.parametrize("answer", ["I do not know.", "Ich weiß es nicht.", "Yes, 5."])
def test_a_refusal_is_shown_as_one(answer: str) -> None:
    shown = io.StringIO()
    outcomes = OutcomeTable({"ragas.context_precision": Score(value=0.0, normalised=0.0)})
    asked = sample(answer=answer)
    done = Evaluation(sample=asked, outcomes=outcomes, probability=None, start=0, end=1)
    ConsoleSink(shown).deliver(done)
    assert ("a refusal" in shown.getvalue()) is not answer.startswith("Yes")


@given(st.floats(0, 1), st.floats(0, 1))
def test_outcome_lines_of_an_undecided_score_stand_before_a_perfect_one(
    risk: float, other: float
) -> None:
    undecided = NotScored(Cause.UNDEFINED, "the judge cannot tell", risk=risk)
    perfect = Score(value=1.0, normalised=1.0, risk=other)
    lines = [text for text, _ in outcome_lines({"a": perfect, "b": undecided})]
    assert "undefined" in lines[0]
    assert f"risk {risk:.2f}" in lines[0]
