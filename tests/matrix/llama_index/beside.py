"""Steps of workflows that find something beside the nodes, and such that only instruct the model.

Old versions cannot read annotations that are kept as texts.
"""

from collections.abc import Awaitable, Callable
from typing import Any

from llama_index.core.workflow import StartEvent, StopEvent

from tests.matrix.llama_index.variants import Corpus, Variant, says
from tests.matrix.llama_index.workflows import event, flow, store
from tests.support.step_texts import FORMS, StepText, beside, step_text
from tests.support.variation import Variation


def answering(
    draw: Variation, corpus: Corpus, step: StepText, said: str, *, is_first: bool
) -> Callable[[], Awaitable[None]]:
    """Return a function that asks a workflow in which a model is shown nodes and a step's find.

    One step finds both, or one each, in either order; the find may be kept in the store.
    """
    asked, nodes, other = (draw.name() for _ in range(3))
    is_kept = draw.chance.random() < 0.3
    begun, found = event(draw, asked, nodes, other), event(draw, asked, nodes, other)

    async def search(question: str) -> dict[str, Any]:
        return {nodes: await corpus.retriever.aretrieve(question)}

    async def kept(ctx: Any, ev: Any) -> Any:
        await store(ctx).set(other, step.value)
        question = ev.get(asked)
        return found(**{asked: question, other: None, **await search(question)})

    async def both(ctx: Any, ev: Any) -> Any:
        question = ev.get(asked)
        return found(**{asked: question, other: step.value, **await search(question)})

    async def one(ctx: Any, ev: Any) -> Any:
        question = ev.get(asked)
        given = {other: step.value} if is_first else await search(question)
        return begun(**{asked: question, nodes: None, other: None, **given})

    async def then(ctx: Any, ev: Any) -> Any:
        question = getattr(ev, asked)
        given = await search(question) if is_first else {other: step.value}
        before = {nodes: getattr(ev, nodes), other: getattr(ev, other)}
        return found(**{asked: question, **before, **given})

    async def tell(ctx: Any, ev: Any) -> StopEvent:
        documents = "\n".join(node.get_content() for node in getattr(ev, nodes))
        parts = [step.written, documents]
        prompt = "\n\n".join(parts if is_first else parts[::-1])
        reply = await says(said).acomplete(f"{prompt}\n-- {getattr(ev, asked)}")
        return StopEvent(result=reply.text)

    in_two: list[Any] = [(one, StartEvent, begun), (then, begun, found)]
    in_one: list[Any] = [(kept if is_kept else both, StartEvent, found)]
    steps = in_one if is_kept or draw.chance.random() < 0.5 else in_two

    async def run() -> None:
        await flow(draw, *steps, (tell, found, StopEvent)).run(**{asked: corpus.question})

    return run


def _variant(draw: Variation, step: StepText, said: str) -> Variant:
    corpus, is_first = Corpus(draw, 2), draw.chance.random() < 0.5
    contexts = [*step.shown, *corpus.shown()] if is_first else [*corpus.shown(), *step.shown]
    run = answering(draw, corpus, step, said, is_first=is_first)
    return Variant(run, corpus.question, contexts, said)


def found_in_a_step(draw: Variation) -> Variant:
    """The find of a step is context where the answer says it."""
    one = step_text(draw, draw.chance.choice(list(FORMS)))
    return _variant(draw, one, one.answer(draw))


def instructed_in_a_step(draw: Variation) -> Variant:
    return _variant(draw, draw.chance.choice(list(beside(draw).values())), draw.sentence())


BESIDE = (found_in_a_step, instructed_in_a_step)
