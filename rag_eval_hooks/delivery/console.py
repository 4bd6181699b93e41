"""A sink that prints each evaluation to a terminal."""

from __future__ import annotations

import re
import sys
import textwrap
from collections.abc import Iterator
from typing import Final

from rag_eval_hooks.explanation import outcome_lines
from rag_eval_hooks.result import Evaluation
from rag_eval_hooks.score import Score
from rag_eval_hooks.text.refusals import refusal

_WIDTH: Final = 100
_TEXT_CHARS: Final = 300
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_REFUSAL: Final = "(The answer is a refusal without claims, so its scores mean little.)"


class ConsoleSink:
    def deliver(self, evaluation: Evaluation) -> None:
        encoding = sys.stdout.encoding or "utf-8"
        for line in _lines(evaluation):
            plain = _CONTROL.sub("\N{REPLACEMENT CHARACTER}", line)
            sys.stdout.write(plain.encode(encoding, "replace").decode(encoding) + "\n")
        sys.stdout.flush()

    def close(self) -> None:
        pass


def _lines(evaluation: Evaluation) -> Iterator[str]:
    sample = evaluation.sample
    yield _wrapped("Question", sample.question)
    yield _wrapped("Answer", sample.answer or "(none)")
    if refusal(sample.answer or "") is not None:
        yield f"    {_REFUSAL}"
    failed = {name for name, passes in evaluation.verdicts.items() if not passes}
    for text, outcome in outcome_lines(evaluation.outcomes, failed):
        if isinstance(outcome, Score) or outcome.is_missing or outcome.risk is not None:
            yield text
    yield ""


def _wrapped(name: str, text: str) -> str:
    short = textwrap.shorten(text, _TEXT_CHARS, placeholder=" ...")
    return textwrap.fill(f"{name}: {short}", _WIDTH, subsequent_indent=" " * (len(name) + 2))
