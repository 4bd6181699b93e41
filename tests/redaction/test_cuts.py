"""No cut divides what redaction takes out so that a part of it leaves."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from rag_eval_hooks import Context, RagEvalConfig, Sample
from rag_eval_hooks.capture import RunKind
from rag_eval_hooks.capture.assembler import Assembler
from rag_eval_hooks.capture.content import content_of, plain
from rag_eval_hooks.capture.recorder import Recorder
from rag_eval_hooks.capture.records import Interaction
from rag_eval_hooks.incidents import Incidents
from rag_eval_hooks.redaction import MARGIN, choose_redactor
from rag_eval_hooks.redaction.patterns import Patterns
from tests.support.limits import small_limits
from tests.support.size import size

# Of characters that the text around them does not have, so that any part can be told.
SECRETS = {
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


@settings(max_examples=size(25, 400), deadline=None)
@given(
    kind=st.sampled_from(sorted(SECRETS)),
    limit=st.sampled_from([LIMIT, LIMIT + MARGIN, LIMIT + MARGIN + 1]),
    share=st.floats(0, 1),
)
def test_limit_of_a_text_tells_no_part(kind: str, limit: int, share: float) -> None:
    secret = SECRETS[kind]
    cut = 1 + int(share * (len(secret) - 2))
    text = ("_ " * limit)[: limit - cut - 1] + " " + secret + " _" * MARGIN
    sample, spans = captured([text])
    assert told(secret, json.dumps(sample.to_dict()) + spans) == []
    assert "question" in sample.truncated


@settings(max_examples=size(25, 400), deadline=None)
@given(
    pieces=st.lists(
        st.tuples(st.sampled_from(sorted(SECRETS)), st.integers(1, 300)), min_size=1, max_size=6
    ),
    limit=st.integers(1, 4000),
)
def test_limit_of_an_interaction_tells_no_part(pieces: list[tuple[str, int]], limit: int) -> None:
    texts = [f"{'_' * gap} {SECRETS[kind]} " for kind, gap in pieces]
    sample, spans = captured(["".join(texts), *texts], max_chars=limit)
    written = json.dumps(sample.to_dict()) + spans
    assert [part for kind, _ in pieces for part in told(SECRETS[kind], written)] == []
