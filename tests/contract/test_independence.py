"""A metric's prompts and value do not depend on the other metrics chosen."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rag_eval_hooks import Sample
from rag_eval_hooks.evaluation.collect import Sources
from rag_eval_hooks.evaluation.scorer import Scorer
from rag_eval_hooks.incidents import Incidents
from rag_eval_hooks.judges.llm import LLMJudge
from rag_eval_hooks.metrics import ALL_METRICS, Metric
from rag_eval_hooks.prompts.prompt import Prompt
from rag_eval_hooks.sample import Context
from rag_eval_hooks.score import Outcomes, Score
from tests.support.brain_chat import body
from tests.support.servers.brain import WordEmbedder, truthful_reply

WORDS = ("Varne", "Kell", "Lorne", "opened", "burned", "rye", "1841", "30", "not", "may")
SENTENCES = st.lists(st.sampled_from(WORDS), min_size=2, max_size=5).map(
    lambda words: " ".join(words).capitalize() + "."
)
TEXTS = st.lists(SENTENCES, min_size=1, max_size=3).map(" ".join)


@st.composite
def samples(draw: st.DrawFn) -> Sample:
    chunks = draw(st.lists(TEXTS, max_size=3))
    return Sample(
        question=draw(TEXTS),
        contexts=tuple(Context(text=chunk) for chunk in chunks),
        answer=draw(TEXTS),
        reference=draw(st.none() | TEXTS),
    )


_FLAGS = ("useful", "correct", "indistinct", "found", "noncommittal")
_RATINGS = ("accuracy_ratings", "context_ratings", "groundedness_ratings")


class Suggestible:
    name = "suggestible"

    def __init__(self) -> None:
        self.prompts: set[str] = set()

    async def complete(self, prompt: Prompt) -> str:
        text = re.sub(r"data [0-9a-f]{12}>", "data>", prompt.user)
        self.prompts.add(text)
        seed = hashlib.blake2b(text.encode(), digest_size=8).digest()
        return json.dumps(_swayed(truthful_reply(body(prompt)), seed))

    async def aclose(self) -> None: ...


def _swayed(node: Any, seed: bytes) -> Any:
    if isinstance(node, list):
        return [_swayed(part, seed + bytes([at])) for at, part in enumerate(node)]
    if not isinstance(node, dict):
        return node
    drawn = hashlib.blake2b(seed, digest_size=2).digest()
    turned = {key: _swayed(part, seed + key.encode()) for key, part in node.items()}
    changes: dict[str, Any] = dict.fromkeys(_FLAGS, drawn[0] % 2 == 0)
    changes |= dict.fromkeys(_RATINGS, 2 * (drawn[0] % 2)) | {"score": drawn[1] % 99 + 1}
    changes |= {"value": drawn[0] % 5 + 1} if type(turned.get("value")) is int else {}
    return turned | {key: changes[key] for key in turned.keys() & changes.keys()}


def evaluated(sample: Sample, metrics: tuple[Metric, ...]) -> tuple[Outcomes, set[str]]:
    chat = Suggestible()
    sources = Sources(judge=LLMJudge(chat), embedder=WordEmbedder())
    scorer = Scorer(metrics, sources, 60.0, Incidents(), only_fed=False)
    return asyncio.run(scorer.score(sample)), chat.prompts


def bare(outcome: Any) -> Any:
    is_score = isinstance(outcome, Score)
    return (outcome.value, outcome.explanation) if is_score else (outcome.cause, outcome.detail)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(samples(), st.sets(st.sampled_from(range(len(ALL_METRICS))), min_size=1), st.data())
def test_a_metric_is_the_same_alone_and_in_any_set(
    sample: Sample, chosen: set[int], data: st.DataObject
) -> None:
    metrics = tuple(ALL_METRICS[at] for at in sorted(chosen))
    together, prompts = evaluated(sample, metrics)
    metric = data.draw(st.sampled_from(metrics))
    alone, own = evaluated(sample, (metric,))
    assert bare(alone[metric.id]) == bare(together[metric.id])
    assert own <= prompts
