"""Masked and rewritten texts replace the document that a step was given, and no other."""

from __future__ import annotations

import pytest

from rag_eval_hooks.capture import RunKind
from rag_eval_hooks.capture.question import Rewritten
from rag_eval_hooks.capture.rewriting import replace_rewritten
from rag_eval_hooks.sample import Context
from tests.support.story import Story
from tests.support.variation import Variation, seeds

varied = pytest.mark.parametrize("seed", seeds(9))


def found_by(story: Story, name: str, kind: RunKind, text: str) -> None:
    run = story.run(name, story.root, kind)
    story.recorder.documents(run, [Context(text=text, id="1")])
    story.recorder.end(run)


@varied
def test_two_stores_with_the_same_ids_stay_apart(seed: int) -> None:
    drawn = Variation(seed)
    texts = drawn.passages(2)
    story = Story()
    for name, text in zip("ab", texts, strict=True):
        found_by(story, name, RunKind.RETRIEVER, text)
    found_by(story, "reranker", RunKind.CHAIN, texts[seed % 2])
    interaction = story.root.interaction
    rewritten = Rewritten(interaction)
    shown = [context.text for found in interaction.lists for context in rewritten.of(found)]
    assert shown == [*texts, texts[seed % 2]]


@varied
def test_a_masked_text_replaces_the_document_it_was_made_of(seed: int) -> None:
    drawn = Variation(seed)
    secret = drawn.name()
    texts = [f"{drawn.name()} {secret} {drawn.name()} {drawn.name()}", drawn.passage()]
    masked = texts[0].replace(secret, "***")
    story = Story()
    for name, text in zip("ab", texts, strict=True):
        found_by(story, name, RunKind.RETRIEVER, text)
    found_by(story, "mask", RunKind.CHAIN, masked)
    interaction = story.root.interaction
    rewritten = Rewritten(interaction)
    shown = [context.text for found in interaction.lists for context in rewritten.of(found)]
    assert shown == [masked, texts[1], masked]


@varied
@pytest.mark.parametrize("in_place", [False, True])
def test_a_postprocessor_rewrites_only_what_it_was_given(seed: int, in_place: bool) -> None:
    drawn = Variation(seed)
    texts = drawn.passages(2)
    short = texts[1][: len(texts[1]) // 2]
    story = Story()
    for name, text in zip("ab", texts, strict=True):
        found_by(story, name, RunKind.RETRIEVER, text)
    step = story.run("shorten", story.root, RunKind.RERANKER)
    given = {"1": short if in_place else texts[1]}
    replace_rewritten(step, [Context(text=f"{short} ...", id="1")], given)
    lists = story.root.interaction.lists
    assert [context.text for found in lists for context in found.contexts] == [
        texts[0],
        f"{short} ...",
    ]
