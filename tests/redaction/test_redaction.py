"""Laws of redaction: nothing leaves unredacted, and scores stay what they are."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_eval_hooks import Context, NotScored, RagEval, RagEvalConfig, Sample, Score
from rag_eval_hooks.capture import RunKind
from rag_eval_hooks.capture.assembler import Assembler
from rag_eval_hooks.capture.attributes import content_of, plain
from rag_eval_hooks.capture.recorder import Recorder
from rag_eval_hooks.capture.records import Interaction
from rag_eval_hooks.delivery.codec import evaluation_to_text, from_text
from rag_eval_hooks.errors import RedactionError
from rag_eval_hooks.incidents import Incidents
from rag_eval_hooks.judges.heuristic.judge import HeuristicJudge
from rag_eval_hooks.judges.openai import OpenAIJudge
from rag_eval_hooks.redaction import MARGIN, Match, Redactor, choose_redactor
from rag_eval_hooks.redaction.own_rules import Patterns
from rag_eval_hooks.result import Evaluation
from rag_eval_hooks.score import UNIT, Cause, Outcome
from rag_eval_hooks.testing import MemorySink, ScriptedJudge
from tests.support.limits import small_limits
from tests.support.otel import Spans
from tests.support.servers.judge_server import JudgeServer
from tests.support.size import size

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
        sample=Sample(question=secret),
        outcomes=outcomes,
        start=17 * 10**17,
        end=17 * 10**17 + 2 * 10**9,
    )
    text = evaluation_to_text(done, mark="before")
    redactor = Redactor(functions=[lambda text: text.replace(secret, "#")], mark="now")
    same = from_text(text)
    assert (same.outcomes, same.seconds, same.evaluated) == (outcomes, 2.0, done.evaluated)
    assert not any(one.explanation for one in from_text(text, redactor).outcomes.values())


def test_own_pattern_names_its_placeholder_and_is_stopped_when_it_runs_away() -> None:
    patterns = {"customer": r"\bC-\d{6}\b", "SALARY": r"earns (?P<value>\d+)"}
    session = redactor(Patterns(patterns)).session()
    assert session.text("question", "C-123456 earns 900") == "<CUSTOMER_1> earns <SALARY_1>"
    session = redactor(Patterns({"evil": r"(?:a|aa)+(?:a|aa)+(?:a|aa)+$x"})).session()
    with pytest.raises(RedactionError, match="TimeoutError"):
        session.text("question", "a" * 200 + "!")


# Cuts of texts.


# Of characters that the text around them does not have, so that any part can be told.
CUT_SECRETS = {
    "email": "jane.krueger@bergwerk.coop",
    "phone": "+49 30 901820",
    "card": "4111 1111 1111 1111",
    "iban": "DE89 3704 0044 0532 0130 00",
    "key": "sk-proj-9Kd83jfKwq02LmZx81PqRs74",
    "password": "password=Kd83jf!xyQ7zzB",
    "jwt": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTYifQ.dBjftJeZ4CVP-mB92K27u",
    "private": "-----BEGIN PRIVATE KEY-----\nMIIBVQIBADANBgkqhkiG9w0BAQEF",
    "ip": "2001:db8:85a3:8d3:1319:8a2e:370:7348",
    "pattern": "CUST-778899",
}
RULES = choose_redactor(RagEvalConfig(), [Patterns({"OWN": r"CUST-\d{6}"}), "all", "ip"])
LIMIT = 600
_TOLD = 4
"""Characters of a secret that must not be told in a row."""


def parts(secret: str) -> set[str]:
    value = secret.removeprefix("password=").removeprefix("-----BEGIN PRIVATE KEY-----\n")
    return {value[n : n + _TOLD] for n in range(len(value) - _TOLD + 1)}


def told(secret: str, text: str) -> list[str]:
    return sorted(part for part in parts(secret) if part in text)


def captured(texts: list[str], max_chars: int = 10**6) -> tuple[Sample, str]:
    config = RagEvalConfig(max_text_chars=LIMIT)
    assembler = Assembler(config, RULES, Incidents())
    ended: list[Interaction] = []
    with small_limits({"INTERACTION_CHARS": max_chars}):
        recorder = Recorder(ended.append, max_text_chars=assembler.text_chars)
    first = texts[0]
    metadata = {"note": first, "reference": first, "user_id": first, "session_id": first}
    root = recorder.start(1, None, RunKind.CHAIN, "help", metadata)
    assert root is not None
    root.query = recorder.text(root, first)
    run = recorder.start(2, 1, RunKind.RETRIEVER, "store")
    assert run is not None
    run.query = recorder.text(run, first)
    documents = [Context(text=text, id="1", score=1.0, metadata={"m": text}) for text in texts]
    recorder.documents(run, documents)
    recorder.end(run)
    ranked = recorder.start(3, 1, RunKind.RERANKER, "ranked")
    assert ranked is not None
    recorder.documents(ranked, documents[:1])
    recorder.end(ranked)
    model = recorder.start(4, 1, RunKind.MODEL, "model")
    assert model is not None
    recorder.prompt(model, [*texts, *["more"] * 500])
    model.text = recorder.text(model, first)
    recorder.end(model)
    root.text = recorder.text(root, first)
    recorder.end(root)
    (interaction,) = ended
    session = assembler.session()
    attributes = [
        plain(
            assembler.attributes(session, content_of(run, documents_of(interaction, run), None)),
            10**7,
        )
        for run in interaction.runs
    ]
    sample = assembler.sample(interaction, session, None, None)
    # A random id and a duration may hold any digits.
    return replace(sample, sample_id="", latency=None, ended_at=None), json.dumps(attributes)


def documents_of(interaction: Interaction, run: Any) -> tuple[Context, ...]:
    return next((found.contexts for found in interaction.lists if found.run is run), ())


@settings(max_examples=size(12, 400), deadline=None)
@given(
    kind=st.sampled_from(sorted(CUT_SECRETS)),
    limit=st.sampled_from([LIMIT, LIMIT + MARGIN, LIMIT + MARGIN + 1]),
    share=st.floats(0, 1),
)
def test_limit_of_a_text_tells_no_part(kind: str, limit: int, share: float) -> None:
    secret = CUT_SECRETS[kind]
    cut = 1 + int(share * (len(secret) - 2))
    text = ("_ " * limit)[: limit - cut - 1] + " " + secret + " _" * MARGIN
    sample, spans = captured([text])
    assert told(secret, json.dumps(sample.to_dict()) + spans) == []
    assert "question" in sample.truncated


@settings(max_examples=size(12, 400), deadline=None)
@given(
    pieces=st.lists(
        st.tuples(st.sampled_from(sorted(CUT_SECRETS)), st.integers(1, 300)), min_size=1, max_size=6
    ),
    limit=st.integers(1, 4000),
)
def test_limit_of_an_interaction_tells_no_part(pieces: list[tuple[str, int]], limit: int) -> None:
    texts = [f"{'_' * gap} {CUT_SECRETS[kind]} " for kind, gap in pieces]
    sample, spans = captured(["".join(texts), *texts], max_chars=limit)
    written = json.dumps(sample.to_dict()) + spans
    assert [part for kind, _ in pieces for part in told(CUT_SECRETS[kind], written)] == []
