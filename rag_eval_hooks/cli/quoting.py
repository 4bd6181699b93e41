"""Stand-in for a language model in the demo: quotes passages, and errs only on request.

It knows nothing but the prompt that it is given, answers with the sentences of the passages
that share most with the question, and says so when none does. Its mistakes are those that an
evaluation has to find: a changed number, an added sentence, a negation, an answer to another
question.
"""

from __future__ import annotations

import math
import re
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Final

from rag_eval_hooks.text.folding import content_tokens, stem
from rag_eval_hooks.text.sentences import sentences

__all__ = [
    "NO_ANSWER",
    "PROMPT",
    "HashedTfidf",
    "Mistake",
    "PromptError",
    "quote",
    "reply",
    "words",
]

PROMPT: Final = """\
Answer the question from the passages only. If they do not say, tell so.

<passages>
{passages}
</passages>

<question>{question}</question>"""
"""The prompt of the demo's pipelines, in the form of `str.format`; texts are delimited as data."""

NO_ANSWER: Final = "The passages do not say."

_INVENTION: Final = "Passengers also receive a silver umbrella and a voucher for 75 crowns."

_PROMPT: Final = re.compile(
    r"<passages>\n(?P<passages>.*)\n</passages>\s*<question>(?P<question>.*)</question>", re.DOTALL
)
_LAST_NUMBER: Final = re.compile(r"(?<![\d.,:])\d+(?!.*(?<![\d.,:])\d)", re.DOTALL)
"""Of a number with several parts, such as 21.00 or 07:15, the first part."""
_AUXILIARY: Final = re.compile(
    r"\b(is|are|was|were|may|must|can|will|has|have|does|do)\b", re.IGNORECASE
)

_LEAST_COVERAGE: Final = 0.5
_LEAST_WORDS: Final = 2
"""The first sentence is an answer if it holds half of the question's weight or, of a long
question, as much as two words of it weigh on average."""
_DIMENSIONS: Final = 1024
_LEAST_ADDED: Final = 0.3
"""Share that a second sentence must add to be quoted beside it."""


class Mistake(StrEnum):
    """Kind of a mistake that the model makes on request."""

    NUMBER = "number"
    """The last number is another one."""
    INVENTED = "invented"
    """A sentence that no passage holds follows the right answer."""
    NEGATED = "negated"
    OFF_TOPIC = "off_topic"
    """A true quotation that answers another question."""

    @property
    def is_unfaithful(self) -> bool:
        """The answer then states something that no passage says."""
        return self is not Mistake.OFF_TOPIC

    def __str__(self) -> str:
        """Return the value in words."""
        return self.value.replace("_", " ")


class PromptError(ValueError):
    """The text does not have the form of `PROMPT`."""


def reply(prompt: str, mistakes: Mapping[str, Mistake] | None = None) -> str:
    """Return the model's answer to a filled-in `PROMPT`.

    Args:
        prompt: The only source of the answer.
        mistakes: Mistakes to make, by question.

    Raises:
        PromptError: The prompt holds no passages or no question.
    """
    match = _PROMPT.search(prompt)
    if match is None:
        raise PromptError("the prompt holds no <passages> followed by a <question>")
    question = match["question"]
    available = sentences(match["passages"])
    answer = quote(question, available)
    mistake = (mistakes or {}).get(question)
    return answer if mistake is None else _spoiled(answer, mistake, question, available)


def quote(question: str, available: Sequence[str]) -> str:
    """Return the one or two sentences that share most with the question, or `NO_ANSWER`.

    A word weighs more the fewer sentences hold it, most when none does: a question about
    something that the passages never mention is not answered.
    """
    weights = _weights(question, available)
    first = _best(weights, available)
    if _share(weights, first) < min(_LEAST_COVERAGE, _LEAST_WORDS / max(len(weights), 1)):
        return NO_ANSWER
    held = set(words(first))
    rest = {word: 0.0 if word in held else weight for word, weight in weights.items()}
    second = _best(rest, available)
    if _share(rest, second) * sum(rest.values()) < _LEAST_ADDED * sum(weights.values()):
        return first
    return " ".join(sorted((first, second), key=list(available).index))


def words(text: str) -> list[str]:
    """Return content words and numbers without their inflection."""
    return [stem(token) for token in content_tokens(text)]


def _weights(question: str, available: Sequence[str]) -> dict[str, float]:
    """Return the question's content words, each with its rarity among the sentences."""
    count = Counter(word for text in available for word in set(words(text)))
    return {word: math.log(1 + len(available) / (1 + count[word])) for word in words(question)}


def _share(weights: Mapping[str, float], text: str) -> float:
    """Return the share of the weight whose words the text holds; 0 for no weight."""
    held = set(words(text))
    total = sum(weights.values())
    return sum(weights[word] for word in weights if word in held) / total if total else 0.0


def _best(weights: Mapping[str, float], available: Sequence[str]) -> str:
    return max(available, key=lambda text: _share(weights, text), default="")


def _spoiled(answer: str, mistake: Mistake, question: str, available: Sequence[str]) -> str:
    match mistake:
        case Mistake.NUMBER:
            return _LAST_NUMBER.sub(lambda number: str(int(number[0]) + 7), answer, count=1)
        case Mistake.INVENTED:
            return f"{answer} {_INVENTION}"
        case Mistake.NEGATED:
            return _AUXILIARY.sub(r"\1 not", answer, count=1)
        case Mistake.OFF_TOPIC:
            weights = _weights(question, available)
            return min(available, key=lambda text: _share(weights, text), default=answer)


class HashedTfidf:
    """Bag of words, hashed to 1024 signed buckets, weighted by inverse document frequency.

    Args:
        texts: Texts in which frequencies are counted.
    """

    def __init__(self, texts: Sequence[str]) -> None:
        self._texts = len(texts)
        self._frequency = Counter(word for text in texts for word in set(words(text)))

    def vector(self, text: str) -> list[float]:
        """Return the text's unit vector; a fixed one for a text without content words."""
        buckets = [0.0] * _DIMENSIONS
        for word, count in Counter(words(text)).items():
            code = zlib.crc32(word.encode())
            sign = 1.0 if code & 1 else -1.0
            buckets[(code >> 1) % _DIMENSIONS] += sign * self._weight(word, count)
        length = math.sqrt(sum(value * value for value in buckets))
        # A zero vector has no cosine with anything, and vector stores refuse it.
        return [value / length for value in buckets] if length else [1.0, *buckets[1:]]

    def _weight(self, word: str, count: int) -> float:
        rarity = math.log(1 + self._texts / (1 + self._frequency[word]))
        return (1 + math.log(count)) * rarity
