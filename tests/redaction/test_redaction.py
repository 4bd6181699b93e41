"""Laws of redaction: nothing leaves unredacted, and scores stay what they are."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_eval_hooks import Context, NotScored, RagEval, RagEvalConfig, Sample, Score
from rag_eval_hooks.delivery.codec import evaluation_to_text, from_text
from rag_eval_hooks.errors import RedactionError
from rag_eval_hooks.judges.heuristic import HeuristicJudge
from rag_eval_hooks.judges.openai import OpenAIJudge
from rag_eval_hooks.redaction import Match, Redactor, choose_redactor
from rag_eval_hooks.redaction.patterns import Patterns
from rag_eval_hooks.result import Evaluation
from rag_eval_hooks.score import UNIT, Cause, Outcome
from rag_eval_hooks.testing import MemorySink, ScriptedJudge
from tests.servers.judge_server import JudgeServer
from tests.support.otel import Spans

MAIL, PHONE, CARD = "jane.doe@example.com", "+49 30 901820", "4111 1111 1111 1111"
SECRETS = (MAIL, PHONE, CARD)
IBAN = "DE89 3704 0044 0532 0130 00"
FULL = Sample(
    question=f"May I write to {MAIL}?",
    contexts=(
        Context(text=f"Write to {MAIL}.", id=MAIL, metadata={"author": MAIL, MAIL: [PHONE]}),
        Context(text=f"The phone is {PHONE}; the card {CARD} is blocked."),
    ),
    answer=f"Yes, {MAIL} and {PHONE} both work.",
    reference=f"Write to {MAIL}.",
    question_id=f"q-{MAIL}",
    session_id=PHONE,
    user_id=MAIL,
    tags=("vip", MAIL),
    metadata={"deep": {"list": [MAIL, {"card": 4111111111111111}], "n": 3}, "who": (MAIL,)},
)


def redactor(*asked: Any, **settings: Any) -> Redactor:
    return choose_redactor(RagEvalConfig(**settings), list(asked) or None)


def test_equal_values_have_equal_placeholders() -> None:
    sample = Sample(
        question="Is it Jane@Example.com or bob@example.com?",
        contexts=("jane@example.com, tel. +49 30 901820", "+49 (0)30 901820"),  # type: ignore[arg-type]
        answer="jane@example.com",
    )
    redacted = redactor("all").sample(sample)
    assert redacted.question == "Is it <EMAIL_1> or <EMAIL_2>?"
    assert [c.text for c in redacted.contexts or ()] == ["<EMAIL_1>, tel. <PHONE_1>", "<PHONE_1>"]
    assert redacted.answer == "<EMAIL_1>"


def test_overlapping_matches_leave_nothing_out() -> None:
    """Of matches that overlap one is made, so that no end of either stands in the text."""

    class Left:
        def matches(self, text: str) -> list[Match]:
            return [Match(0, 6, "LEFT")]

    class Right:
        def matches(self, text: str) -> list[Match]:
            return [Match(4, 9, "RIGHT"), Match(9, 9, "NOTHING")]

    assert redactor(Left(), Right()).session().text("question", "0123456789") == "<LEFT_1>9"


@pytest.mark.parametrize("bad", [lambda text: 1 / 0, lambda text: None])
def test_unredactable_sample_is_dropped(bad: Any) -> None:
    app, sink = Spans(), MemorySink()
    config = RagEvalConfig(capture_content=True)
    more: dict[str, Any] = {"config": config, "tracer_provider": app.provider, "redact": bad}
    with RagEval(judge=ScriptedJudge(), sinks=[sink], **more) as evals:
        evals.submit(FULL)
        evals.flush(300)
        stats = evals.stats()
        assert stats.dropped == {"redaction_failed": 1}
        assert stats.offered == 1
        with pytest.raises(RedactionError) as caught:
            evals.evaluate(FULL)
    assert sink.results == []
    assert MAIL not in str(caught.value) + str([dict(span.attributes or {}) for span in app.all()])
    assert caught.value.__cause__ is None


def test_ids_are_hashed_with_a_key() -> None:
    hashed = redactor(redact_ids_key="one").sample(FULL)
    assert hashed.user_id not in (None, FULL.user_id)
    assert hashed.user_id == redactor(redact_ids_key="one").sample(FULL).user_id
    assert hashed.user_id != redactor(redact_ids_key="two").sample(FULL).user_id
    assert hashed.question == FULL.question


def test_judge_sink_and_spans_get_redacted_content() -> None:
    app, sink = Spans(), MemorySink()
    config = RagEvalConfig(capture_content=True, redact=["all"], embedder="none")
    with JudgeServer() as server:
        judge = OpenAIJudge("m", base_url=server.url, api_key="k")
        more: dict[str, Any] = {"config": config, "tracer_provider": app.provider}
        with RagEval(["ragas"], judge, sinks=[sink], **more) as evals:
            told = {"user_id": MAIL, "session_id": PHONE}
            with evals.interaction(FULL.question, metadata=told) as it:
                it.contexts(FULL.contexts or ())
                it.answer(FULL.answer)
            assert evals.flush(300)
        sent = json.dumps([request.body for request in server.requests])
    written = json.dumps([dict(span.attributes or {}) for span in app.all()])
    (delivery,) = sink.results
    assert "<EMAIL_1>" in sent
    assert json.dumps(delivery.sample.answer) in written
    for text in (sent, written, repr(delivery)):
        assert not [secret for secret in SECRETS if secret in text]


SCORED = [
    Sample(
        question="Which account takes the 25 euros?",
        contexts=(f"The fee of 25 euros goes to {IBAN}. Write to ada@varne.example.",),  # type: ignore[arg-type]
        answer=f"The fee of 25 euros goes to {IBAN}.",
        reference=f"The fee of 25 euros goes to {IBAN}.",
    ),
    Sample(
        question="When was it founded?",
        contexts=("It was founded on 15.10.1923 with 1,200 members.",),  # type: ignore[arg-type]
        answer="On 15.10.1923, with 1,200 members, by bob@varne.example.",
        reference="On 15.10.1923.",
    ),
]


@pytest.mark.parametrize("sample", SCORED)
def test_scores_are_equal_with_redaction(sample: Sample) -> None:
    metrics = ("ragas.faithfulness", "ragas.context_recall", "graphrag", "lexical")
    values = []
    for redact in ("none", "all"):
        with RagEval(metrics, HeuristicJudge(None), embedder="none", redact=redact) as evals:
            outcomes = evals.evaluate(sample)
            values.append({n: o.value for n, o in outcomes.items() if isinstance(o, Score)})
    assert values[0] == values[1]
    assert values[0]


@pytest.mark.parametrize("redact", ["none", "all"])
def test_an_address_is_supported_as_a_whole_only(redact: str) -> None:
    letters = "The clerk answers letters to {}."
    asked = {"question": "Who?", "contexts": [letters.format("ada@varne.example")]}
    with RagEval("ragas.faithfulness", HeuristicJudge(None), redact=redact) as evals:
        for named in ("ada@varne.example", "bob@varne.example", "ada@lorne.example"):
            outcomes = evals.evaluate({**asked, "answer": letters.format(named)})
            value = outcomes["ragas.faithfulness"].value
            assert value == float(named == "ada@varne.example"), named


@given(secret=st.from_regex(r"[A-Za-z]{4,9}", fullmatch=True))
def test_results_read_under_other_settings_quote_nothing(secret: str) -> None:
    rows = {"claims": [{"claim": secret, "quote": secret}]}
    outcomes: dict[str, Outcome] = {
        "a.score": UNIT.score(0.5, explanation=rows),
        "a.undecided": NotScored(Cause.UNDEFINED, "too few", undecided=True, explanation=rows),
    }
    done = Evaluation(
        sample=Sample(question=secret), outcomes=outcomes, probability=1.0, start=0, end=1
    )
    text = evaluation_to_text(done, mark="before")
    redactor = Redactor(functions=[lambda _field, text: text.replace(secret, "#")], mark="now")
    assert from_text(text).outcomes == outcomes
    assert not any(one.explanation for one in from_text(text, redactor).outcomes.values())


def test_own_pattern_names_its_placeholder_and_is_stopped_when_it_runs_away() -> None:
    """Of a pattern with a group `value`, only that is taken out."""
    patterns = {"customer": r"\bC-\d{6}\b", "SALARY": r"earns (?P<value>\d+)"}
    session = redactor(Patterns(patterns)).session()
    assert session.text("question", "C-123456 earns 900") == "<CUSTOMER_1> earns <SALARY_1>"
    session = redactor(Patterns({"evil": r"(?:a|aa)+(?:a|aa)+(?:a|aa)+$x"})).session()
    with pytest.raises(RedactionError, match="TimeoutError"):
        session.text("question", "a" * 200 + "!")
