"""Laws of texts that were divided between prompts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_eval_hooks.capture.contexts.prompt_positions import Position, Prompts
from rag_eval_hooks.capture.contexts.split_texts import in_pieces

TEXT = "The ferry to Skarn leaves the north quay at 07:40 on every working day, but in winter."
OTHER = "Bicycles travel free of charge on all sailings outside of July and August, it is said."


def prompts(*texts: str) -> Prompts:
    return Prompts(list(texts), "")


@given(st.integers(1, len(TEXT.split()) - 1))
def test_a_text_divided_anywhere_is_found(cut: int) -> None:
    """Wherever a text is divided between two prompts, it was shown: at its longer piece."""
    words = TEXT.split()
    first, second = " ".join(words[:cut]), " ".join(words[cut:])
    place = in_pieces(TEXT, prompts(f"{OTHER} {first}", f"{second} {OTHER}"), ())
    assert place is not None
    assert place.length >= max(len(first), len(second)) - 1


@pytest.mark.parametrize(
    "shown",
    [
        (TEXT[:40], OTHER),
        (OTHER, TEXT[40:]),
        (TEXT[:30], TEXT[40:]),
        (OTHER, OTHER),
        (TEXT[:40] + " ... " + TEXT[40:],),
    ],
)
def test_a_text_of_which_something_is_missing_is_not(shown: tuple[str, ...]) -> None:
    """With a part missing, or both in one prompt, nothing says that it was divided."""
    assert in_pieces(TEXT, prompts(*shown), ()) is None


def test_what_belongs_to_another_text_does_not_count() -> None:
    """A piece that is a part of a text which stands there is that text's."""
    whole = f"{TEXT[40:]} {OTHER}"
    taken = [Position(1, 0, len(whole))]
    assert in_pieces(TEXT, prompts(TEXT[:40], whole), ()) is not None
    assert in_pieces(TEXT, prompts(TEXT[:40], whole), taken) is None
