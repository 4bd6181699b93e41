"""A sink that prints each evaluation to a terminal."""

from __future__ import annotations

import re
import sys
import textwrap
from collections.abc import Iterator
from typing import Final, TextIO

from rag_eval_hooks.explanation import GOOD, outcome_lines
from rag_eval_hooks.result import Evaluation
from rag_eval_hooks.score import Outcome, Score
from rag_eval_hooks.text.refusals import refusal

_WIDTH: Final = 100
_TEXT_CHARS: Final = 300
_FAIR: Final = 0.5  # normalized score; the sink prints lower scores in red
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_REFUSAL: Final = "(The answer is a refusal without claims, so its scores mean little.)"


class ConsoleSink:
    """Prints each sample's question, answer and scores, for development.

    On a terminal, the sink colors scores if `rich` is installed.

    Args:
        file: Stream to print to. The default is standard output.
    """

    def __init__(self, file: TextIO | None = None) -> None:
        self._file = file

    def deliver(self, evaluation: Evaluation) -> None:
        file = self._file or sys.stdout
        encoding = file.encoding or "utf-8"
        for text, style in _lines(evaluation):
            plain = _CONTROL.sub("\N{REPLACEMENT CHARACTER}", text)
            _print(plain.encode(encoding, "replace").decode(encoding), style, file)
        file.flush()

    def close(self) -> None:
        pass


def _print(text: str, style: str, file: TextIO) -> None:
    if style and file.isatty():
        try:
            from rich.console import Console
        except ImportError:
            pass
        else:
            Console(file=file, highlight=False, markup=False, soft_wrap=True).print(
                text, style=style
            )
            return
    file.write(f"{text}\n")


def _lines(evaluation: Evaluation) -> Iterator[tuple[str, str]]:
    sample = evaluation.sample
    yield _wrapped("Question", sample.question), "bold"
    yield _wrapped("Answer", sample.answer or "(none)"), ""
    refuses = refusal(sample.answer or "") is not None
    if refuses:
        yield f"    {_REFUSAL}", ""
    failed = {name for name, passes in evaluation.verdicts.items() if not passes}
    for text, outcome in outcome_lines(evaluation.outcomes, failed):
        if isinstance(outcome, Score) or outcome.is_missing or outcome.risk is not None:
            yield text, "dim" if refuses else _style(outcome)
    yield "", ""


def _wrapped(name: str, text: str) -> str:
    short = textwrap.shorten(text, _TEXT_CHARS, placeholder=" ...")
    return textwrap.fill(f"{name}: {short}", _WIDTH, subsequent_indent=" " * (len(name) + 2))


def _style(outcome: Outcome) -> str:
    if not isinstance(outcome, Score):
        return "dim"
    if outcome.normalized >= GOOD:
        return "green"
    return "yellow" if outcome.normalized >= _FAIR else "red"
