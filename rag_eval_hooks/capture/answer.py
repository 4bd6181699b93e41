"""Chooses the answer of an interaction."""

from __future__ import annotations

from collections.abc import Sequence

from rag_eval_hooks.capture.passages import shown_in
from rag_eval_hooks.capture.records import Interaction, Run, RunKind
from rag_eval_hooks.capture.text_forms import fold, is_distinctive

__all__ = ["answer_of", "holds_reply"]

_LABEL_ENDS = (":", "\uff1a", ">", "\n")
"""Ends of what stands before an answer in a reply, such as `Answer:` and `</think>`."""


def answer_of(interaction: Interaction) -> str | None:
    """Return the root's output; inside one opened by hand, that of the last call in it."""
    root = interaction.root
    if root.text is not None and not interaction.candidates:
        return root.text
    if root.kind is RunKind.MANUAL:
        gave = (run for run in reversed(interaction.runs) if run.parent is root)
        last = next((run for run in gave if run.text is not None or run.text_unknown), None)
        answer = None if last is None else last.text
    else:
        answer = _said(interaction)
    return next((text for text in (answer, root.text) if text is not None), interaction.structured)


def _said(interaction: Interaction) -> str | None:
    """Return the text of the root that holds the reply of a model, or the end of it.

    What it gave as its answer comes first. Of the others that of the last model counts which was
    given retrieved text: a later one may have made a title.
    """
    root = interaction.root
    calls = [r for r in interaction.runs if r.kind is RunKind.MODEL and (r.text or "").strip()]
    if root.text and any(holds_reply(root.text, c) or root.text in (c.text or "") for c in calls):
        return root.text
    texts = [text for text in interaction.candidates if text.strip()]
    said = [(c, text) for c in reversed(calls) for text in texts if _is_last_part(text, c)]
    # A reply may be given out both whole and without its label.
    labeled = (text for c, text in said if any(holds_reply(one, c) for one in texts))
    if (parsed := next(labeled, None)) is not None:
        return parsed
    said += [(c, text) for c in reversed(calls) for text in texts if holds_reply(text, c)]
    if len(said) > 1:
        said.sort(key=lambda one: -calls.index(one[0]))
        said = [(c, text) for c, text in said if _is_grounded(c, interaction, calls)] or said
        said = [(c, text) for c, text in said if text in interaction.written] or said
    return said[0][1] if said else None


def holds_reply(text: str, call: Run) -> bool:
    """Return whether a text holds the reply of a model call."""
    return bool(call.text and call.text in text)


def _is_last_part(text: str, call: Run) -> bool:
    """Return whether a text stands behind the last label of a reply."""
    before, found, after = (call.text or "").rpartition(text)
    is_behind = bool(found and before) and not after.strip()
    return is_behind and before.rstrip(" *_").endswith(_LABEL_ENDS)


def _is_grounded(call: Run, interaction: Interaction, calls: Sequence[Run]) -> bool:
    """Return whether a prompt holds retrieved text, apart from what other calls said of it."""
    prompt = fold(" ".join(call.prompt))
    for other in calls:
        said = fold(other.text or "")
        if other is not call and is_distinctive(said):
            prompt = prompt.replace(said, " ")
    return bool(shown_in(prompt, interaction.lists))
