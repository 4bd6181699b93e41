"""Laws of BERTScore, with bert-score itself and small random models made on the spot."""

from __future__ import annotations

import asyncio
import json
import string
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from rag_eval_hooks.errors import ConfigError, JudgeError
from rag_eval_hooks.findings import TokenScore
from rag_eval_hooks.judges.base import TokenScorer
from rag_eval_hooks.judges.bert_scorer import BertScorer
from tests.support.optional import require

require("bert_score", "torch", "transformers")

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]

LAYER = 3
LONGEST = 64
PAIRS = (
    ("the cat sat on the mat.", "a cat sat there"),
    ("heath grows", "the heath grows here"),
    ("the same words", "the same words"),
    ("a much longer text that goes on and on about the cat, " * 6, "the mat"),
    ("x", "4 cats, 12 mats"),
)


def saved_bert(folder: Path, *, states_limit: bool = True) -> str:
    folder.mkdir()
    letters = string.ascii_lowercase + string.digits + ".,"
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "cat", "mat", "heath", "grows"]
    vocabulary = [*words, *letters, *(f"##{letter}" for letter in letters)]
    (folder / "vocab.txt").write_text("\n".join(vocabulary) + "\n")
    limit = {"model_max_length": LONGEST} if states_limit else {}
    config = {"tokenizer_class": "BertTokenizer", "do_lower_case": True, **limit}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    import torch
    import transformers

    torch.manual_seed(0)
    transformers.BertModel(
        transformers.BertConfig(
            vocab_size=len(vocabulary),
            hidden_size=32,
            num_hidden_layers=4,
            num_attention_heads=4,
            intermediate_size=64,
            max_position_embeddings=LONGEST,
        )
    ).save_pretrained(folder)
    return str(folder)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return saved_bert(tmp_path_factory.mktemp("models") / "small-bert")


@pytest.fixture
async def scorer(model: str) -> AsyncIterator[BertScorer]:
    scorer = BertScorer(model, layer=LAYER, process=False)
    yield scorer
    await scorer.aclose()


async def assert_like_bert_score(scorer: BertScorer, model: str, **options: Any) -> None:
    from bert_score import score

    found = await asyncio.gather(*(scorer.score(*pair) for pair in PAIRS))
    candidates, references = map(list, zip(*PAIRS, strict=True))
    columns = score(
        candidates, references, model_type=model, num_layers=LAYER, lang="en", **options
    )
    for one, *expected in zip(found, *(c.tolist() for c in columns), strict=True):
        assert [one.precision, one.recall, one.f1] == pytest.approx(expected, abs=1e-5)
    assert len({round(one.f1, 4) for one in found}) == len(PAIRS)


async def test_numbers_are_those_of_bert_score(scorer: BertScorer, model: str) -> None:
    assert isinstance(scorer, TokenScorer)
    await assert_like_bert_score(scorer, model)


@pytest.mark.long
@pytest.mark.usefixtures("cores")
async def test_numbers_are_the_same_in_a_process(model: str) -> None:
    elsewhere = BertScorer(model, layer=LAYER, process=True)
    await assert_like_bert_score(elsewhere, model)
    await elsewhere.aclose()


async def test_a_blank_text_shares_nothing(scorer: BertScorer) -> None:
    blank, other = await asyncio.gather(scorer.score(" ", "cat"), scorer.score("cat", "cat"))
    assert blank == TokenScore(0.0, 0.0, 0.0)
    assert other.f1 == pytest.approx(1.0, abs=1e-5)


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:The given NumPy array is not writable")  # bert-score's own
async def test_rescaling_is_that_of_bert_score(model: str, tmp_path: Path) -> None:
    file = tmp_path / "small.tsv"
    rows = [f"{layer},0.{layer + 3},0.{layer + 2},0.{layer + 1}" for layer in range(5)]
    file.write_text("\n".join(["LAYER,P,R,F", *rows]) + "\n")
    options: dict[str, Any] = {"rescale_with_baseline": True, "baseline_path": str(file)}
    scorer = BertScorer(model, layer=LAYER, process=False, **options)
    await assert_like_bert_score(scorer, model, **options)
    await scorer.aclose()
    assert scorer.name.endswith("_L3-custom-rescaled")


async def test_a_tokenizer_without_a_limit_is_cut_to_the_model(tmp_path: Path) -> None:
    model = saved_bert(tmp_path / "boundless", states_limit=False)
    scorer = BertScorer(model, layer=LAYER, process=False)
    assert 0 < (await scorer.score("cat " * 2 * LONGEST, "mat")).f1 <= 1
    await scorer.aclose()


@pytest.mark.parametrize(("layer", "told"), [(None, "set `layer`"), (99, "cannot load")])
async def test_a_wrong_layer_is_told(model: str, layer: int | None, told: str) -> None:
    scorer = BertScorer(model, layer=layer, process=False)
    with pytest.raises(JudgeError, match=told):
        await scorer.score("cat", "mat")
    await scorer.aclose()


@pytest.mark.parametrize(
    ("setting", "options"),
    [
        ("rescale_with_baseline", {"model": "some/model", "rescale_with_baseline": True}),
        ("rescale_with_baseline", {"rescale_with_baseline": True, "language": "xx"}),
        ("baseline_path", {"rescale_with_baseline": True, "baseline_path": "none.tsv"}),
        ("layer", {"layer": -1}),
    ],
)
def test_a_setting_that_cannot_work_is_refused_at_once(
    setting: str, options: dict[str, object]
) -> None:
    with pytest.raises(ConfigError) as refused:
        BertScorer(**options)  # type: ignore[arg-type]
    assert refused.value.field == setting
