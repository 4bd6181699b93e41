"""One interaction of several root runs that were called by hand."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rag_eval_hooks.capture.hand_calls import HandCall, picks_tool, stands_in
from rag_eval_hooks.capture.records import Interaction, Run, RunKind
from rag_eval_hooks.capture.text_forms import fold, is_distinctive, is_distinctive_text

__all__ = ["join_calls", "rewriting"]

_NAME = "interaction"


def join_calls(
    calls: Sequence[HandCall], retrievals: Sequence[HandCall], used: Sequence[HandCall]
) -> Interaction:
    """Return the interaction that calls of one request make up.

    Args:
        calls: Calls of models that were shown what the retrievals gave, in order of their ends.
        retrievals: The retrievals.
        used: Calls that rewrote the question.
    """
    answering = _answering(calls)
    parts = sorted([*used, *retrievals, *calls], key=lambda call: call.root.start)
    joined = answering.interaction.part([answering.root])
    joined.lists, joined.kept_chars = [], 0
    joined.joined = True
    root = joined.root
    if root.kind is not RunKind.CHAIN:
        root.id, root.kind, root.name, root.facts = object(), RunKind.MANUAL, _NAME, {}
        root.text, root.prompt = answering.text or None, ()
    root.outermost = True
    root.query = _question(answering, root, retrievals, used)
    root.start = min(part.root.start for part in parts)
    root.end = max(part.end for part in parts)
    asked = joined.asked
    for part in reversed(parts):
        own = part.interaction.part(part.interaction.runs)
        if not (part is answering and root.kind is RunKind.CHAIN):
            # Its root is a step of the joined interaction.
            own.runs.insert(0, root)
        joined.absorb(own)
    joined.asked, joined.attempted = asked, True
    # A generator may run when the request's span is no longer current.
    spans = ((part.place.span.get_span_context(), part) for part in (answering, *parts))
    joined.otel = next(
        (part.interaction.otel for span, part in spans if span.is_valid), joined.otel
    )
    joined.opened = min(part.interaction.opened for part in parts)
    return joined


def _answering(calls: Sequence[HandCall]) -> HandCall:
    """Return the last call that said something and is no check of what was said before."""
    for place in range(len(calls) - 1, 0, -1):
        call = calls[place]
        said = [fold(one.text) for one in calls[:place]]
        checks = not is_distinctive_text(call.text) and any(
            is_distinctive(text) and text in call.prompt for text in said
        )
        if call.text and not checks:
            return call
    return calls[0] if len(calls) > 1 and calls[0].text else calls[-1]


def rewriting(asking: Sequence[HandCall], retrievals: Sequence[HandCall]) -> list[HandCall]:
    """Return the calls that gave a question to a retriever, or arguments to a tool."""
    queries = [one.query for one in retrievals if one.query]
    return [
        one
        for one in asking
        if any(query in fold(one.text) for query in queries) or picks_tool(one, retrievals)
    ]


def _question(
    answering: HandCall, root: Run, retrievals: Sequence[HandCall], rewriting: Sequence[HandCall]
) -> str | None:
    """Return what the user asked: a chain's input, the message beside the documents, the query."""
    documents = [text for one in retrievals for text in one.documents]
    if root.kind is RunKind.CHAIN and root.query and not _holds(fold(root.query), documents):
        return root.query
    picking = (one.models[0] for one in rewriting if picks_tool(one, retrievals))
    if asked := next((run.prompt[-1] for run in picking if run.prompt), None):
        return asked.strip()
    texts = answering.models[-1].prompt if answering.models else ()
    queries = [one.root.query for one in retrievals if one.root.query]
    last = fold(texts[-1]) if texts else ""
    if (query := next((q for q in queries if fold(q) in last), None)) is not None:
        return query
    if len(texts) > 1 and last and not _holds(last, documents):
        return texts[-1].strip()
    if (query := next((q for q in queries if fold(q) in answering.prompt), None)) is not None:
        return query
    said = (ending for one in rewriting for ending in _common_endings(texts, one))
    return next(said, queries[0] if queries else None)


def _holds(text: str, documents: Sequence[str]) -> bool:
    return any(stands_in(one, text) for one in documents)


def _common_endings(texts: Sequence[str], rewriting: HandCall) -> Iterator[str]:
    """Yield what lines of a prompt end with that lines of the rewriter's prompt end with, too.

    The last line comes first; a label before it, such as `Question:`, differs between prompts.
    """
    given = "\n".join(text for run in rewriting.models for text in run.prompt).splitlines()
    endings = {_unlabelled(line) for line in given} - {""}
    for line in reversed("\n".join(texts).splitlines()):
        if (ending := _unlabelled(line)) in endings:
            yield ending


def _unlabelled(line: str) -> str:
    label, colon, rest = line.partition(":")
    return (rest if colon and len(label.split()) <= 4 else line).strip()
