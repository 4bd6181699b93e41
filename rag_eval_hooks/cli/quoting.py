"""The demo's stand-in for a language model: it quotes, and errs only where it is told to.

It knows nothing but the prompt that it is given, answers with the sentences of the passages
that share most with the question, and says so when none does. Its mistakes are the ones that
an evaluation has to find: a changed number, an added sentence, a negation, an answer to another
question.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Final

from rag_eval_hooks.text.folding import content_tokens, stem
from rag_eval_hooks.text.sentences import sentences

__all__ = ["NO_ANSWER", "PROMPT", "Mistake", "PromptError", "quote", "reply", "words"]

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
_LEAST_ADDED: Final = 0.3
"""Share that a second sentence must add to be quoted beside it."""


class Mistake(StrEnum):
    """What the model gets wrong when it is told to."""

    NUMBER = "number"
    """The last number is another one."""
    INVENTED = "invented"
    """A sentence that no passage holds follows the right answer."""
    NEGATED = "negated"
    OFF_TOPIC = "off_topic"
    """A true quotation that answers another question."""

    @property
    def is_unfaithful(self) -> bool:
        """Whether the answer then states what no passage says."""
        return self is not Mistake.OFF_TOPIC

    def __str__(self) -> str:
        """The value in words."""
        return self.value.replace("_", " ")


class PromptError(ValueError):
    """The text does not have the form of `PROMPT`."""


def reply(prompt: str, mistakes: Mapping[str, Mistake] | None = None) -> str:
    """What the model says to a filled-in `PROMPT`.

    Args:
        prompt: The only source of the answer.
        mistakes: By question, how the answer is to be wrong.

    Raises:
        PromptError: The prompt holds no passages or no question.
    """
    found = _PROMPT.search(prompt)
    if found is None:
        raise PromptError("the prompt holds no <passages> followed by a <question>")
    question = found["question"]
    available = sentences(found["passages"])
    answer = quote(question, available)
    mistake = (mistakes or {}).get(question)
    return answer if mistake is None else _spoiled(answer, mistake, question, available)


def quote(question: str, available: Sequence[str]) -> str:
    """The one or two sentences that share most with the question, or `NO_ANSWER`.

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
    """Content words and numbers without their inflection."""
    return [stem(token) for token in content_tokens(text)]


def _weights(question: str, available: Sequence[str]) -> dict[str, float]:
    """The question's content words, each with its rarity among the sentences."""
    count = Counter(word for text in available for word in set(words(text)))
    return {word: math.log(1 + len(available) / (1 + count[word])) for word in words(question)}


def _share(weights: Mapping[str, float], text: str) -> float:
    """Share of the weight whose words the text holds; 0 for no weight."""
    held = set(words(text))
    total = sum(weights.values())
    return sum(weights[word] for word in weights if word in held) / total if total else 0.0


def _best(weights: Mapping[str, float], available: Sequence[str]) -> str:
    return max(available, key=lambda text: _share(weights, text), default="")


def _spoiled(answer: str, mistake: Mistake, question: str, available: Sequence[str]) -> str:
    match mistake:
        case Mistake.NUMBER:
            return _LAST_NUMBER.sub(lambda found: str(int(found[0]) + 7), answer, count=1)
        case Mistake.INVENTED:
            return f"{answer} {_INVENTION}"
        case Mistake.NEGATED:
            return _AUXILIARY.sub(r"\1 not", answer, count=1)
        case Mistake.OFF_TOPIC:
            weights = _weights(question, available)
            return min(available, key=lambda text: _share(weights, text), default=answer)
