"""Finds question and answer of a request, and the queries derived from the question."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rag_eval_hooks.capture.passages import Prompts, distinct
from rag_eval_hooks.capture.records import Interaction, Origin, Run, RunKind
from rag_eval_hooks.capture.text_forms import fold, is_distinctive

__all__ = ["answer_of", "condensed_question", "holds_reply", "queries", "question_of"]

_MAX_QUERIES = 8
_LABEL_ENDS = (":", "\uff1a", ">", "\n")
"""Ends of labels before an answer, such as `Answer:` and `</think>`."""


def question_of(interaction: Interaction) -> tuple[str, str]:
    """Return the question and where it was found.

    The root's input comes before any derived query. Among several texts without a known key, the
    text that reached a retriever or a model is the question.

    Returns:
        The question or "", and its place: `recorded`, `input`, `prompt` or `query`.
    """
    root = interaction.root
    asked = queries(interaction)
    if root.query:
        return root.query, "recorded" if root.kind is RunKind.MANUAL else "input"
    if interaction.asked:
        return _used_input(interaction, asked)
    if left := _left_in_state(interaction, asked):
        # With several texts the question is unknown, and a query is not a question.
        return left[0] if len(left) == 1 else "", "input"
    return next(iter(asked), ""), "query"


def queries(interaction: Interaction) -> list[str]:
    asked = dict.fromkeys(run.query for run in _outer_retrievers(interaction) if run.query)
    return list(asked)[:_MAX_QUERIES]


def _outer_retrievers(interaction: Interaction) -> list[Run]:
    runs = (run for run in interaction.runs[1:] if run.kind is RunKind.RETRIEVER)
    return [run for run in runs if not run.within(RunKind.RETRIEVER)]


def _used_input(interaction: Interaction, asked: Sequence[str]) -> tuple[str, str]:
    """Return the input text that reached a retriever or a model, else the longest text.

    If a retriever received a query, an unused short text, such as a language name, is not the
    question.
    """
    if used := _used(interaction, interaction.asked, asked):
        return max(used, key=len), "prompt"
    longest = max(interaction.asked, key=len)
    if asked and not is_distinctive(fold(longest)):
        return asked[0], "query"
    return longest, "input"


def _used(interaction: Interaction, texts: Iterable[str], asked: Sequence[str]) -> list[str]:
    folded = {text: fold(text) for text in texts}
    places = list(map(fold, asked))
    long = {text: one for text, one in folded.items() if is_distinctive(one)}
    if exact := [text for text, one in folded.items() if one in places]:
        return exact
    if part := [text for text, one in long.items() if any(one in place for place in places)]:
        return part
    prompts = [fold("\n".join(run.prompt)) for run in interaction.runs if run.prompt]
    return [text for text, one in long.items() if any(one in prompt for prompt in prompts)]


def _left_in_state(interaction: Interaction, asked: Sequence[str]) -> list[str]:
    """Return the state texts that a retriever or prompt received, else all state texts.

    A text that contains a document is not from the user.
    """
    if not interaction.kept:
        return []
    lists = interaction.lists_of(Origin.DOCUMENTS)
    documents = {fold(context.text) for found in lists for context in found.contexts}
    documents = set(filter(is_distinctive, documents))
    texts = [text for text in interaction.kept if not any(d in fold(text) for d in documents)]
    return _used(interaction, texts, asked) or texts


def condensed_question(interaction: Interaction, question: str) -> str | None:
    """Return the query that a model derived from the question, if the request has no other query.

    A model that selects a tool or splits the question creates other queries.
    """
    asked = _outer_retrievers(interaction)
    query = next((run.query for run in asked if run.query), "")
    is_alone = all(run.query in (query, "", None) for run in asked)
    if query in ("", question) or not is_alone or any(run.within(RunKind.TOOL) for run in asked):
        return None
    return query


def answer_of(interaction: Interaction) -> str | None:
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
    """Return the root's text that contains a model's reply or the end of a reply.

    The root's own answer has priority. Then comes the last model that received retrieved text,
    because a later model may have written a title.
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
    return bool(call.text and call.text in text)


def _is_last_part(text: str, call: Run) -> bool:
    before, found, after = (call.text or "").rpartition(text)
    is_behind = bool(found and before) and not after.strip()
    return is_behind and before.rstrip(" *_").endswith(_LABEL_ENDS)


def _is_grounded(call: Run, interaction: Interaction, calls: Sequence[Run]) -> bool:
    prompt = fold(" ".join(call.prompt))
    for said in filter(is_distinctive, (fold(one.text or "") for one in calls if one is not call)):
        prompt = prompt.replace(said, " ")
    return bool(Prompts([prompt]).place(distinct(interaction.lists)))
