"""Pipelines of LlamaIndex drawn by a seed come out right, whatever names, lengths and languages."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest
from llama_index.core.instrumentation import get_dispatcher
from llama_index.core.instrumentation.dispatcher import instrument_tags
from llama_index.core.schema import NodeWithScore, TextNode

from rag_eval_hooks import RagEval, Sample
from rag_eval_hooks.errors import ConfigError
from rag_eval_hooks.metrics import build
from rag_eval_hooks.metrics.options import MetricOptions
from rag_eval_hooks.testing import ScriptedJudge
from rag_eval_hooks_llama_index import SuiteEvaluator, enable
from tests.matrix.llama_index import fixtures
from tests.matrix.llama_index.agents import NO_TOOL_THREADS
from tests.matrix.llama_index.drawn import DRAWN, wrong_in
from tests.matrix.llama_index.helpers import engine, samples
from tests.matrix.llama_index.kit import QUESTION
from tests.matrix.llama_index.variants import answered
from tests.matrix.world import World
from tests.support.size import size
from tests.support.variation import Variation, seeds

own_loop, plain_world, world = fixtures.own_loop, fixtures.plain_world, fixtures.world
pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.usefixtures("own_loop"),
]


@pytest.mark.parametrize("seed", seeds(size(5, 20)))
@pytest.mark.parametrize("name", DRAWN)
def test_what_is_captured_is_right(name: str, seed: int) -> None:
    """Question, contexts and answer are right, one sample a question and none for preparation."""
    if name == "plain_tool" and NO_TOOL_THREADS is not None:
        pytest.skip(NO_TOOL_THREADS)
    assert wrong_in(name, seed) == {}


@pytest.mark.parametrize("seed", seeds(5))
def test_paused_capture_sees_nothing_that_begins_meanwhile(world: World, seed: int) -> None:
    """In the block nothing is captured; another task, and whatever comes later, is."""
    registration = enable(world.evals)
    tasks = Variation(seed).chance.randint(1, 4)

    async def paused() -> None:
        with registration.paused():
            await asyncio.gather(*(engine().aquery(QUESTION) for _ in range(tasks)))

    async def both() -> None:
        await asyncio.gather(paused(), engine().aquery(QUESTION))

    asyncio.run(both())
    engine().query(QUESTION)
    assert len(samples(world)) == 2


TAGS: list[Any] = [{1: "x"}, {None: 2}, {"tags": 5}, {"tags": None}, {("a", 1): object()}]


@pytest.mark.parametrize("tags", TAGS, ids=[f"tags {number}" for number in range(len(TAGS))])
def test_odd_tags_lose_nothing(world: World, tags: Any) -> None:
    """Tags of any type of key and value are no reason to lose the sample."""
    with instrument_tags(tags):
        engine().query(QUESTION)
    (sample,) = samples(world)
    assert sample.question == QUESTION
    assert world.evals.stats().incidents == {}


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("question", 5),
        ("contexts", ""),
        ("answer", ["text"]),
        ("root", ""),
        ("retrieval_tools", "search"),
        ("document_keys", [1]),
        ("as_context", "text"),
    ],
)
def test_options_that_can_never_work_are_refused(
    plain_world: World, option: str, value: Any
) -> None:
    """A wrong option is refused at start-up, with its name."""
    with pytest.raises(ConfigError, match=option):
        enable(plain_world.evals, **{option: value})


dispatcher = get_dispatcher(__name__)


class Searcher:
    """A search of the application's own."""

    @dispatcher.span
    def search(self, texts: list[str]) -> list[NodeWithScore]:
        return [NodeWithScore(node=TextNode(text=text)) for text in texts]


class Hit:
    """Result of an application's own client."""

    def __init__(self, said: str) -> None:
        self.said = said


@pytest.mark.parametrize("others", [False, True])
@pytest.mark.parametrize("seed", seeds(5))
def test_one_interaction_may_have_options_of_its_own(world: World, seed: int, others: bool) -> None:
    """Options of one interaction hold for the calls inside alone, in place of those of `enable`."""
    draw = Variation(seed)
    found, chosen, asked, said = draw.passages(2), draw.passages(2), draw.question(), draw.passage()
    key, other = draw.name(), draw.name()
    cases: dict[str, tuple[Any, Any]] = {
        "contexts": (other, {key: found, other: chosen}),
        "answer": (other, {key: said, other: chosen[0]}),
        "document_keys": ([other], {other: []}),
        "as_context": (lambda one: getattr(one, "said", None), list(map(Hit, chosen))),
        "root": ("Searcher", None),
    }
    option, (value, gives) = list(cases.items())[seed % len(cases)]
    of_enable: dict[str, Any] = {
        "contexts": key,
        "answer": key,
        "document_keys": [key],
        "as_context": lambda one: None,
        "root": "no",
    }

    @dispatcher.span
    def ask(query: str) -> Any:
        if gives is None:
            Searcher().search(chosen)
            return said
        return gives

    enable(world.evals, **({option: of_enable[option]} if others else {}))
    with world.evals.interaction(asked, **{option: value}) as interaction:
        ask(draw.question())
        if option != "answer":
            interaction.answer(said)
    (sample,) = samples(world)
    assert not world.evals.stats().incidents
    assert sample.question == asked
    if option == "answer":
        assert sample.answer == chosen[0]
    else:
        due = [] if option == "document_keys" else chosen
        assert (sample.contexts and [one.text for one in sample.contexts]) == (due or ())


def tasks_of(sample: Sample, metric: str | None, *evaluators: str) -> int:
    """Count what a judge is asked: of a sample by one metric, or by evaluators of a suite."""
    judge = ScriptedJudge()
    with RagEval(metrics=["ragas"] if metric is None else [metric], judge=judge) as evals:
        if metric is not None:
            evals.evaluate(sample)
        for name in evaluators:
            SuiteEvaluator(evals, name).evaluate(
                query=sample.question,
                response=sample.answer,
                contexts=[context.text for context in sample.contexts or ()],
            )
    return len(judge.calls)


@pytest.mark.parametrize("seed", seeds(5))
def test_an_evaluator_measures_its_metric_alone(seed: int) -> None:
    """Evaluators of one suite ask the judge for their own metrics only."""
    draw = Variation(seed)
    found: Any = draw.passages(draw.chance.randint(1, 3))
    sample = Sample(question=draw.question(), contexts=found, answer=answered(draw))
    metrics = [metric.id for metric in build(MetricOptions()) if metric.id.startswith("ragas.")]
    alone = {metric: tasks_of(sample, metric) for metric in metrics}
    assert {metric: tasks_of(sample, None, metric) for metric in metrics} == alone
    assert tasks_of(sample, None, *metrics) == sum(alone.values())


@pytest.mark.parametrize("seed", seeds(5))
def test_an_evaluator_of_an_unknown_metric_is_refused(seed: int) -> None:
    """A misspelt id is an error at once, which names the one that was meant."""
    chance = Variation(seed).chance
    metrics = [metric.id for metric in build(MetricOptions()) if metric.id.startswith("ragas.")]
    meant = chance.choice(metrics)
    left_out = chance.randrange(len("ragas.") + 1, len(meant))
    with (
        RagEval(metrics=["ragas"], judge="local") as evals,
        pytest.raises(ConfigError, match=re.escape(meant)),
    ):
        SuiteEvaluator(evals, meant[:left_out] + meant[left_out + 1 :])
