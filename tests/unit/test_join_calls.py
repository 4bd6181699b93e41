"""Calls by hand become one interaction, whatever each of them had noted."""

from __future__ import annotations

import random

import pytest
from opentelemetry.context import Context as OtelContext

from rag_eval_hooks.capture.contexts import find_contexts
from rag_eval_hooks.capture.hand_calls import HandCall
from rag_eval_hooks.capture.join_calls import join_calls
from rag_eval_hooks.capture.places import place_of_caller
from rag_eval_hooks.capture.records import DocumentList, Interaction, Run, RunKind
from rag_eval_hooks.sample import Context


def call(kind: RunKind, start: int, **noted: object) -> HandCall:
    interaction = Interaction(OtelContext())
    run = Run(start, kind, "r", None, interaction, start, outermost=True, end=start + 1)
    for name, value in noted.items():
        setattr(run, name, value)
    interaction.runs.append(run)
    return HandCall(interaction, place_of_caller(interaction.otel))


@pytest.mark.parametrize("seed", range(5))
def test_documents_of_an_earlier_try_are_taken_over(seed: int) -> None:
    """Lists whose runs are of another interaction, as a graph that is tried again has, are kept."""
    dice = random.Random(seed)
    question = f"When does ship {dice.randrange(1000)} leave the harbour?"
    texts = [f"Ship {dice.randrange(10**6)} leaves the harbour at {n} o'clock." for n in range(3)]
    earlier = call(RunKind.CHAIN, 1).root
    retrieval = call(RunKind.RETRIEVER, 2, query=question)
    retrieval.interaction.lists.append(DocumentList(retrieval.root, (Context(text=texts[0]),)))
    prompt = "\n".join([*texts, question])
    model = call(RunKind.MODEL, 4, prompt=(prompt,), text="At noon, says the harbour master.")
    foreign = DocumentList(earlier, tuple(Context(text=text) for text in texts[1:]))
    model.interaction.lists.append(foreign)
    joined = join_calls([model], [retrieval], [])
    found = find_contexts(joined, model.text).contexts or ()
    assert {context.text for context in found} == set(texts)
