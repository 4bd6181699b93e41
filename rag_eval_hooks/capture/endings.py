"""Decides whether a finished or abandoned root run is a RAG request."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain

from opentelemetry.trace import format_trace_id

from rag_eval_hooks.capture.answering import answer_of
from rag_eval_hooks.capture.contexts import has_retrieved
from rag_eval_hooks.capture.interaction import BlockEnd
from rag_eval_hooks.capture.manual_calls import ManualCalls
from rag_eval_hooks.capture.options import objects_in
from rag_eval_hooks.capture.records import DocumentList, Interaction, Origin, RunKind
from rag_eval_hooks.capture.snapshots import Snapshots
from rag_eval_hooks.capture.text_forms import fold
from rag_eval_hooks.incidents import Incidents
from rag_eval_hooks.request import id_of
from rag_eval_hooks.sample import Context, Status

_logger = logging.getLogger("rag_eval_hooks")
_REMEMBERED = 10_000
"""Maximum number of stored ids of requests without retrieved text, for `explain`."""
_MOST_ADDED = 0.2
"""Maximum fraction of a formatter's output that is not from documents."""
_STEPS = (RunKind.RETRIEVER, RunKind.RERANKER, RunKind.EMBEDDING)
_NO_ANSWER = (
    "An interaction() block recorded no answer",
    "Inside the block, call `it.answer(text)`, or `it.answer(None)` if there is no answer",
)
_NO_CONTEXTS = (
    "An interaction() block recorded no contexts",
    "Inside the block, call `it.contexts(documents)`. If there are none, call `it.contexts([])`",
)
_UNRETRIEVED = (
    "A request was not evaluated, because capture saw an answer but no retrieved text. If a "
    "retriever ran, pass the handler in the config of the outermost call. A handler in a "
    "constructor or on the model misses retrievers. If the application calls retriever and model "
    "separately, make both calls inside evals.interaction(question). If your code searches a "
    "vector store directly, call enable(evals). For search tools, set the handler's "
    "retrieval_tools=. For other searches, call record_contexts(documents). "
    "stats().without_retrieval counts such requests. See docs/capture.md, 'I see no sample'."
)


class Endings:
    def __init__(self, incidents: Incidents, by_hand: ManualCalls) -> None:
        self._incidents, self._by_hand = incidents, by_hand
        self._traces: deque[str] = deque(maxlen=_REMEMBERED)
        self._has_warned = False
        self.unretrieved = 0
        # whether capture saw a model, and whether the application passed a handler to a retriever
        self._has_model = self._has_retriever = False

    @property
    def lacks_model(self) -> bool:
        return self._has_retriever and not self._has_model

    def explains(self, key: str) -> bool:
        return key in self._traces

    def decide(self, interaction: Interaction) -> bool:
        """Return whether the finished root run is a RAG request."""
        interaction.read()
        _replace_rewritten(interaction)
        interaction.snapshots = Snapshots()
        for key, told in objects_in(interaction.metadata).items():
            self._incidents.count(told, detail="capture omits this key")
            interaction.add_metadata({key: None})
        if interaction.status is Status.OK:
            self._note_mistakes(interaction)
            _mark_unfinished(interaction)
        for run in interaction.runs:
            run.state = None
        root = interaction.root
        is_manual = root.kind is RunKind.MANUAL
        self._has_model |= is_manual or bool(interaction.models)
        self._has_retriever |= interaction.passed and root.kind is RunKind.RETRIEVER
        return is_manual or self._is_request(interaction)

    def _is_request(self, interaction: Interaction) -> bool:
        may_join = not interaction.passed
        if _is_step(interaction):
            if may_join and interaction.retrieves is not False:
                self._by_hand.add_retrieval(interaction)
            return False
        retrieves = not _asks_nothing(interaction) and interaction.retrieves
        if retrieves:
            return True
        # Prefer a matching separate retrieval to a guess: the retrieval's documents have metadata.
        if may_join and self._by_hand.add(interaction):
            return False
        if retrieves is None and has_retrieved(interaction, answer_of(interaction)):
            return True
        if _answers(interaction):
            self._pass_over(interaction)
        return False

    def _note_mistakes(self, interaction: Interaction) -> None:
        end = interaction.root.state
        if not isinstance(end, BlockEnd):
            return
        has_answer = answer_of(interaction) is not None
        lacks_contexts = interaction.retrieves is False and not interaction.left_out
        if not (has_answer or end.has_answer):
            told, advice = _NO_ANSWER
        elif has_answer and lacks_contexts:
            told, advice = _NO_CONTEXTS
        else:
            return
        self._incidents.count(told, detail=f"{advice}, at {end.place}")

    def _pass_over(self, interaction: Interaction) -> None:
        self.unretrieved += 1
        self._traces.append(id_of(interaction.root.id))
        if (span := interaction.span_context).is_valid:
            self._traces.append(format_trace_id(span.trace_id))
        if not self._has_warned:
            self._has_warned = True
            _logger.warning(_UNRETRIEVED)


def _mark_unfinished(interaction: Interaction) -> None:
    models = [run for run in interaction.models if run.unfinished]
    if models and _is_closed_early(interaction):
        interaction.status = Status.CLOSED
        return
    writing = {run for model in models for run in (model, *model.ancestors())}
    if any(run.unfinished and run not in writing for run in interaction.runs):
        interaction.misses_event()


def _is_closed_early(interaction: Interaction) -> bool:
    # A background call, for example for a title, may take longer than the answering call.
    root, models = interaction.root, interaction.models
    if root.kind is RunKind.MANUAL and root.text is not None:
        return False
    answer = fold(root.text or "")
    said = (fold(run.text) for run in models if run.text and not run.unfinished)
    is_said = any(text and text in answer and 2 * len(text) >= len(answer) for text in said)
    return models[-1].unfinished and not is_said


def _answers(interaction: Interaction) -> bool:
    is_alone = interaction.passed and len(interaction.runs) == 1 and interaction.root.query
    # LangChain does not pass a constructor's handler to the chain's steps.
    spoke = any(run.text for run in (interaction.runs if is_alone else interaction.models))
    return spoke and interaction.status is Status.OK


def _is_step(interaction: Interaction) -> bool:
    root = interaction.root
    if root.kind in _STEPS:
        return True
    if interaction.models:
        return False
    if root.kind is not RunKind.CHAIN or interaction.passed:
        return root.kind is RunKind.TOOL
    if not root.text or interaction.lists_of(Origin.CHOSEN):
        return False
    text = rest = fold(root.text)
    for context in (context for found in interaction.lists for context in found.contexts):
        rest = rest.replace(fold(context.text), "")
    return len(rest) <= _MOST_ADDED * len(text)


def _asks_nothing(interaction: Interaction) -> bool:
    kinds = {run.kind for run in interaction.runs}
    is_idle = kinds.isdisjoint((RunKind.RETRIEVER, RunKind.MODEL))
    return is_idle and interaction.status is Status.OK and not interaction.root.query


def _replace_rewritten(interaction: Interaction) -> None:
    # A step may mask a text. The original must not reach a context, a span or metadata.
    lists = interaction.lists
    known: dict[str | None, list[str]] = {}
    for number, found in enumerate(lists):
        run = found.run
        if found.origin is Origin.DOCUMENTS and (
            run.kind is not RunKind.RETRIEVER
            or any(run in one.run.ancestors() for one in lists[:number])
        ):
            texts, lost = _changes(found, known)
            if texts or lost:
                _replace(interaction, number, texts, lost)
                known = _texts_by_id(chain.from_iterable(one.contexts for one in lists[:number]))
        for name, more in _texts_by_id(found.contexts).items():
            known.setdefault(name, []).extend(more)
    if interaction.rewritten:
        interaction.lists = [
            replace(one, contexts=tuple([_without(c, interaction.rewritten) for c in one.contexts]))
            for one in lists
        ]


def _texts_by_id(contexts: Iterable[Context]) -> dict[str | None, list[str]]:
    texts: dict[str | None, list[str]] = {}
    for context in contexts:
        texts.setdefault(context.id, []).append(context.text)
    return texts


def _changes(
    found: DocumentList, known: Mapping[str | None, Sequence[str]]
) -> tuple[dict[str, tuple[str, str]], Collection[str]]:
    parts = _texts_by_id(found.contexts).items()
    latest = {name: "\n".join(dict.fromkeys(texts)) for name, texts in parts if name is not None}
    replaced = {
        name: (before, text)
        for name, text in latest.items()
        if (before := _earlier_text(text, found.given.get(name), known.get(name, ())))
    }
    lost = found.given.keys() - latest.keys()
    texts = set(chain.from_iterable(known.values())) if lost else ()
    # A step that merges documents into a new document replaces the old documents.
    merges = any(one.id not in known and one.text not in texts for one in found.contexts)
    return replaced, lost if merges else ()


def _replace(
    interaction: Interaction,
    number: int,
    replaced: Mapping[str, tuple[str, str]],
    lost: Collection[str],
) -> None:
    run = interaction.lists[number].run
    for earlier, one in enumerate(interaction.lists[:number]):
        kept = (context for context in one.contexts if context.id not in lost)
        pairs = ((context, replaced.get(context.id) if context.id else None) for context in kept)
        # Two stores may use the same id, so also compare the texts.
        contexts = (
            replace(context, text=pair[1]) if pair and pair[0] == context.text else context
            for context, pair in pairs
        )
        interaction.lists[earlier] = replace(one, contexts=tuple(contexts))
    for model in interaction.models if run.kind is RunKind.RERANKER else ():
        if run in model.ancestors():
            # Remove the texts of the reranker's own model call, which may quote the replaced texts.
            model.prompt, model.roles, model.text = (), (), None
    for name, (text, _) in replaced.items():
        interaction.rewritten.setdefault(name, set()).add(text)


def _earlier_text(latest: str, given: str | None, known: Sequence[str]) -> str | None:
    if given is not None and given not in latest:
        return given
    # If the step's input is unknown, keep a longer text, because `latest` may be a preview.
    if latest in known or (given is None and any(latest in text for text in known)):
        return None
    return next((text for text in reversed(known) if text not in latest), None)


def _without(context: Context, rewritten: Mapping[str | None, set[str]]) -> Context:
    texts = [text for text in rewritten.get(context.id, ()) if text not in context.text]
    metadata = {
        key: value
        for key, value in context.metadata.items()
        if not (isinstance(value, str) and any(text in value for text in texts))
    }
    return replace(context, metadata=metadata) if texts else context
