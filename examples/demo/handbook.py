"""Passages about an invented ferry line, questions, and the answers of a scripted model.

The passages answer most questions, but not all. Some scripted answers are wrong on purpose. A
question's `mistake` names the kind of mistake: a changed number, an invented sentence, a negation,
or an answer to a different question.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

__all__ = ["PASSAGES", "PROMPT", "QUESTIONS", "Question", "nearest", "scripted_answer"]

PROMPT = """\
Answer the question from the passages only. If the passages lack the answer, say so.

{passages}

Question: {question}"""
_FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class Question:
    """A question with its scripted answer, and the correct answer if the handbook has one."""

    id: str
    question: str
    answer: str
    reference: str | None = None
    mistake: str | None = None


def _lines(name: str) -> list[dict[str, str]]:
    text = (_FOLDER / name).read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


PASSAGES = [line["text"] for line in _lines("passages.jsonl")]
QUESTIONS = [Question(**line) for line in _lines("questions.jsonl")]


def scripted_answer(prompt: str) -> str:
    """Return the scripted answer to the question at the end of the prompt."""
    asked = prompt.rpartition("Question: ")[2].strip().splitlines()[0]
    return next(one.answer for one in QUESTIONS if one.question == asked)


def nearest(question: str, k: int = 4, passages: Sequence[str] = PASSAGES) -> list[str]:
    """Return the `k` passages that share most with the question. Rare words count more."""
    held = [_words(text) for text in passages]
    count = Counter(word for words in held for word in words)
    asked = _words(question)

    def weight(at: int) -> float:
        return sum(1 / count[word] for word in asked & held[at])

    return [passages[at] for at in sorted(range(len(passages)), key=weight, reverse=True)[:k]]


def _words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.casefold()))
