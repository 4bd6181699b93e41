"""Chooses the answer of an interaction."""

from __future__ import annotations

from collections.abc import Sequence

from rag_eval_hooks.capture.passages import shown_in
from rag_eval_hooks.capture.question import queries
from rag_eval_hooks.capture.records import Interaction, Run, RunKind
from rag_eval_hooks.capture.text_forms import fold, is_distinctive

__all__ = ["answer_of", "holds_reply"]

_LABEL_ENDS = (":", "\uff1a", ">", "\n")
"""Ends of what stands before an answer in a reply, such as `Answer:` and `</think>`."""


def answer_of(interaction: Interaction) -> str | None:
    """Return the root's output; inside one opened by hand, that of the last call in it."""
    root = interaction.root
    if (report := _report(interaction)) is not None:
        return report
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
    """Return the text of the root that holds the text of a model, or the end of it.

    What it gave as its answer comes first. Of the others that of the last model counts which was
    given retrieved text: a later one may have made a title.
    """
    root = interaction.root
    calls = [r for r in interaction.runs if r.kind is RunKind.MODEL and (r.text or "").strip()]
    if root.text and any(holds_reply(root.text, c) or root.text in (c.text or "") for c in calls):
        return root.text
    parsed = (_parsed(call, interaction.candidates) for call in reversed(calls))
    if (text := next(filter(None, parsed), None)) is not None:
        return text
    said = [(c, text) for c in reversed(calls) for text in _made_of(c, interaction.candidates)]
    if len(said) > 1:
        said = [(c, text) for c, text in said if _is_grounded(c, interaction, calls)] or said
        said = [(c, text) for c, text in said if text in interaction.written] or said
    return said[0][1] if said else None


def _parsed(call: Run, texts: Sequence[str]) -> str | None:
    """Return what stands behind the last label of a reply that was given out whole as well."""
    made = _made_of(call, texts)
    is_parsed = bool(made) and _is_last_part(made[0], call) and holds_reply(made[-1], call)
    return made[0] if is_parsed else None


def _made_of(call: Run, texts: Sequence[str]) -> list[str]:
    """Return the texts that stand behind the last label of a reply, then those that hold it."""
    parsed = [text for text in texts if text.strip() and _is_last_part(text, call)]
    return [*parsed, *(text for text in texts if holds_reply(text, call))]


def _is_last_part(text: str, call: Run) -> bool:
    before, found, after = (call.text or "").rpartition(text)
    return (
        bool(found and before) and not after.strip() and before.rstrip(" *_").endswith(_LABEL_ENDS)
    )


def _report(interaction: Interaction) -> str | None:
    """Return the text that the last step put together from what several models said, or None."""
    if not interaction.written:
        return None
    asked = set(queries(interaction))
    said = {run.text for run in interaction.runs if run.kind is RunKind.MODEL and run.text}
    distinct = [text for text in said - asked if is_distinctive(fold(text))]
    for text in interaction.written:
        # A summary or a title that quotes the answer is no report.
        held = [one for one in distinct if one in text and one != text]
        parts = [one for one in held if not any(one in o for o in held if o != one)]
        if text in distinct:
            if _is_written_anew(text, interaction):
                return text
        elif len(parts) > 1 and 2 * sum(map(len, parts)) >= len(text):
            return text
    return None


def _is_written_anew(text: str, interaction: Interaction) -> bool:
    """Return whether a model wrote the root's text into a longer one from the same sources.

    What quotes an answer, such as a summary, was shown it.
    """
    root = fold(interaction.root.text or "")
    if not is_distinctive(root) or root not in fold(text):
        return False
    calls = [run for run in interaction.runs if run.kind is RunKind.MODEL]
    return any(
        call.text == text
        and root not in fold(" ".join(call.prompt))
        and _is_grounded(call, interaction, calls)
        for call in calls
    )


def holds_reply(text: str, call: Run) -> bool:
    """Return whether a text holds the reply of a model call."""
    return bool(call.text and call.text in text)


def _is_grounded(call: Run, interaction: Interaction, calls: Sequence[Run]) -> bool:
    """Return whether a prompt holds retrieved text, apart from what other calls said of it."""
    prompt = fold(" ".join(call.prompt))
    for other in calls:
        said = fold(other.text or "")
        if other is not call and is_distinctive(said):
            prompt = prompt.replace(said, " ")
    return bool(shown_in(prompt, interaction.lists))
