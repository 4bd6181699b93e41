"""Explanations as bounded text, and results as a terminal and a notebook show them."""

from __future__ import annotations

import io
import json
import re
from html.parser import HTMLParser
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_eval_hooks import Cause, NotScored, RagEval, Score, Stats
from rag_eval_hooks.delivery.console import ConsoleSink
from rag_eval_hooks.explanation_text import OutcomeTable, explain, outcome_lines, prose
from rag_eval_hooks.result import Evaluation
from rag_eval_hooks.score import Outcome
from tests.support.evaluation import sample

VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)
CLAIMS = {
    "claims": [
        {"claim": "It is 55 minutes.", "supported": True, "chunks": [1], "reason": "chunk 1"},
        {"claim": "It is red.", "supported": False, "chunks": [], "reason": None},
    ]
}


def test_texts_stand_in_it_only_when_asked_for() -> None:
    assert json.loads(explain(CLAIMS, 1000, content=True) or "") == CLAIMS
    bare = explain(CLAIMS, 1000, content=False)
    rows = [{k: v for k, v in row.items() if type(v) is not str} for row in CLAIMS["claims"]]
    assert json.loads(bare or "") == {"claims": rows}
    assert prose(CLAIMS, 1000, content=False) == bare
    assert explain({"by": "judge"}, 1000, content=False) is None
    assert explain({}, 1000, content=True) is prose({}, 100, content=True) is None


@given(value=st.dictionaries(st.text(), VALUES), limit=st.integers(1, 300), content=st.booleans())
def test_any_value_gives_bounded_json_that_can_be_sent(
    value: dict[str, Any], limit: int, content: bool
) -> None:
    text = explain(value, limit, content=content)
    if text is not None:
        assert len(text) <= limit
        assert isinstance(json.loads(text), dict)
        text.encode()


def test_a_long_one_is_shortened_and_says_so() -> None:
    rows = {"claims": [{"claim": "long " * 100, "supported": True} for _ in range(100)]}
    text = explain(rows, 2000, content=True) or ""
    told = json.loads(text)
    assert (len(text) <= 2000, told["cut"], told["claims"][0]["supported"]) == (True, True, True)


@pytest.mark.parametrize(
    ("explanation", "text"),
    [
        (
            CLAIMS,
            "claims: 1 of 2 supported\n"
            "- not supported: It is red.\n"
            "- supported: It is 55 minutes. (chunk 1)",
        ),
        (
            {"chunks": [{"chunk": 2, "useful": False, "rating": 4.5}]},
            "chunks: 0 of 1 useful\n- not useful: chunk 2",
        ),
        (
            {"reason": "too short", "missing": ["55"], "words": 3, "nothing": None},
            'reason: too short\nmissing: ["55"]\nwords: 3\nnothing: null',
        ),
        ({"reason": "a\ud800b"}, "reason: a?b"),
    ],
)
def test_prose_tells_failed_verdicts_first_and_values_as_they_are(
    explanation: dict[str, Any], text: str
) -> None:
    assert prose(explanation, 1000, content=True) == text


@pytest.mark.parametrize("limit", [1, 3, 6, 7, 40])
def test_the_limit_holds(limit: int) -> None:
    told = prose(CLAIMS, limit, content=True) or ""
    assert 0 < len(told) <= limit
    assert told.endswith("[...]") or limit < 6


TEXTS = st.text("ab <>&\"'é字\ud800\n", min_size=1).map(lambda text: text.strip() or "x")
UNIT = st.floats(0, 1)


@st.composite
def outcomes_of_every_kind(draw: st.DrawFn) -> Outcome:
    value, text = draw(UNIT), draw(TEXTS)
    claims = [{"claim": text, "supported": value > 0.5, "reason": text}]
    kinds: list[Outcome] = [
        Score(value=value, normalized=value, explanation={"claims": claims}),
        Score(value=value, normalized=value, explanation={"reason": text}, label=text),
        NotScored(draw(st.sampled_from([*Cause])), text),
    ]
    return draw(st.sampled_from(kinds))


class Cells(HTMLParser):
    """Collects the texts of a table's cells."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.feed(page)
        self.close()

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


@given(st.lists(outcomes_of_every_kind(), min_size=1, max_size=8))
def test_every_metric_has_its_row_the_worst_first(drawn: list[Outcome]) -> None:
    """Values and reasons stand in the table, whatever signs they hold; texts make no markup."""
    outcomes = {f"suite.metric_{number}": one for number, one in enumerate(drawn)}
    table = OutcomeTable(outcomes)
    assert table == outcomes
    rows = Cells(table._repr_html_()).rows
    assert sorted(row[0] for row in rows) == sorted(outcomes)
    values = [float(row[1]) for row in rows if row[1] != "-"]
    assert values == sorted(values)
    assert [row[1] for row in rows][: len(values)] == [f"{value:.2f}" for value in values]
    for name, _, _, reason in rows:
        outcome = outcomes[name]
        if isinstance(outcome, NotScored):
            assert reason == outcome.detail.replace("\ud800", "?")
        else:
            assert bool(reason) is (outcome.normalized < 0.8)
    shown = repr(table)
    assert shown.encode()
    assert re.findall(r"suite\.metric_\d", shown) == [row[0] for row in rows]


@given(st.integers(0, 1), st.integers(0, 1), st.integers(1, 9), st.integers(1, 9))
def test_statistics_show_what_is_not_zero(offered: int, pending: int, one: int, two: int) -> None:
    stats = Stats(offered=offered, pending=pending, dropped={"budget": one, "a<b": two})
    expected = {"offered": offered, "pending": pending, "dropped": f"{one} budget, {two} a<b"}
    shown = dict(Cells(stats._repr_html_()).rows)
    assert shown == {name: str(value) for name, value in expected.items() if value}


def test_a_notebook_shows_what_is_evaluated_and_what_became_of_it() -> None:
    with RagEval("lexical") as evals:
        evals.submit({"question": "q", "answer": "see page 1"})
        evals.flush()
        head, *counts = Cells(evals._repr_html_()).rows
    assert head[0] == repr(evals)
    assert "lexical.source_citation" in head[1]
    assert ["scored", "1"] in counts


@pytest.mark.parametrize("answer", ["I do not know.", "Ich weiß es nicht.", "Yes, 5."])
def test_a_refusal_is_shown_as_one(answer: str) -> None:
    shown = io.StringIO()
    outcomes = OutcomeTable({"ragas.context_precision": Score(value=0.0, normalized=0.0)})
    asked = sample(answer=answer)
    done = Evaluation(sample=asked, outcomes=outcomes, probability=None, start=0, end=1)
    ConsoleSink(shown).deliver(done)
    assert ("a refusal" in shown.getvalue()) is not answer.startswith("Yes")


@given(UNIT, UNIT)
def test_an_undecided_score_stands_before_a_perfect_one_and_shows_its_items(
    risk: float, other: float
) -> None:
    rows = {"claims": [{"claim": "It is red.", "supported": None, "verdict": "unsure"}]}
    undecided = NotScored(Cause.UNDEFINED, "cannot tell", risk=risk, explanation=rows)
    perfect = Score(value=1.0, normalized=1.0, risk=other)
    lines = [text for text, _ in outcome_lines({"a": perfect, "b": undecided})]
    assert "undefined" in lines[0]
    assert f"risk {risk:.2f}" in lines[0]
    assert "cannot tell\n          - unsure: It is red." in lines[0]
