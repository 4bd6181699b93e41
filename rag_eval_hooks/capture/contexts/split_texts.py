"""Finds texts that were divided between prompts."""

from __future__ import annotations

from collections.abc import Collection

from rag_eval_hooks.capture.contexts.prompt_positions import Position, Prompts
from rag_eval_hooks.capture.contexts.text_forms import TELLING, forms, is_telling

__all__ = ["in_pieces"]

_MOST = 64
"""Pieces of one text."""


def in_pieces(text: str, prompts: Prompts, taken: Collection[Position]) -> Position | None:
    """Return the position of the longest piece of a text that is split between prompts.

    What packs texts into prompts may begin one at the end of a prompt, with too few characters to
    know it by, and go on in the next: it was shown where nothing of it is missing.

    Args:
        text: As it was retrieved.
        prompts: Where it is looked for.
        taken: Places of other texts: what begins there belongs to that text.
    """
    found = (_longest(form, prompts, taken) for form in forms(text))
    return next(filter(None, found), None)


def _longest(form: str, prompts: Prompts, taken: Collection[Position]) -> Position | None:
    if not (prompts.hold(form[:TELLING]) or prompts.hold(form[-TELLING:])):
        # Of two pieces one is long enough to be known.
        return None
    longest, last, rest = None, -1, form
    for _ in range(_MOST):
        piece = rest[: prompts.shown(rest, 1)]
        place = prompts.find(piece, taken) if piece else None
        if place is None or place.prompt == last:
            return None
        if is_telling(piece) and (longest is None or place.length > longest.length):
            longest = place
        last, rest = place.prompt, rest[len(piece) :].lstrip()
        if not rest:
            return longest
    return None
