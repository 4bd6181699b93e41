"""Runs drawn pipelines and says what is wrong."""

from __future__ import annotations

import asyncio

from rag_eval_hooks import Sample
from rag_eval_hooks_llama_index import enable
from tests.matrix.llama_index.beside import BESIDE
from tests.matrix.llama_index.nested_engines import NESTED
from tests.matrix.llama_index.tutorial_agents import AGENTS
from tests.matrix.llama_index.tutorial_workflows import WORKFLOWS
from tests.matrix.llama_index.variants import VARIANTS, Variant
from tests.matrix.world import World
from tests.support.variation import Variation

DRAWN = {made.__name__: made for made in (*VARIANTS, *NESTED, *AGENTS, *WORKFLOWS, *BESIDE)}
"""By name."""


def wrong_in(name: str, seed: int) -> dict[str, str]:
    """Run a variant with capture on; return what is wrong, by aspect."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    variant = DRAWN[name](Variation(seed))
    world = World()
    registration = enable(world.evals, **variant.options)
    try:
        given = variant.run()
        if asyncio.iscoroutine(given):
            loop.run_until_complete(given)
        samples = [seen.sample for seen in world.seen()]
        incidents = world.evals.stats().incidents
    finally:
        registration.disable()
        world.close()
        loop.close()
        asyncio.set_event_loop(None)
    wrong = {"incidents": str(incidents)} if incidents else {}
    if len(samples) != variant.interactions:
        return wrong | {"interactions": f"{len(samples)}, not {variant.interactions}"}
    due = [variant] if samples else []
    by_question = {sample.question: sample for sample in samples}
    for request in due:
        wrong |= _differences(request, by_question.get(request.question, samples[0]))
    return wrong


def _differences(variant: Variant, sample: Sample) -> dict[str, str]:
    contexts = None if sample.contexts is None else [c.text for c in sample.contexts]
    due = list(variant.contexts)
    if variant.any_order and contexts is not None:
        contexts, due = sorted(contexts), sorted(due)
    pairs = {
        "question": (sample.question, variant.question),
        "contexts": (contexts, due),
        "answer": (sample.answer, variant.answer),
        "status": (sample.status.value, "ok"),
    }
    return {key: f"{got!r}, not {want!r}" for key, (got, want) in pairs.items() if got != want}
