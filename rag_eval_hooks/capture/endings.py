"""Decides which finished or abandoned root runs are RAG requests."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from opentelemetry import context as otel_context
from opentelemetry import trace
from opentelemetry.trace import format_trace_id

from rag_eval_hooks.capture.contexts import has_retrieved
from rag_eval_hooks.capture.conversation import objects_in
from rag_eval_hooks.capture.manual_calls import ManualCalls, answers, is_step
from rag_eval_hooks.capture.question_answer import answer_of
from rag_eval_hooks.capture.records import BlockEnd, DocumentList, Interaction, Origin, RunKind
from rag_eval_hooks.capture.resume import Suspensions
from rag_eval_hooks.capture.snapshots import Snapshots
from rag_eval_hooks.capture.text_forms import fold, runs_of, words
from rag_eval_hooks.feedback import id_of
from rag_eval_hooks.incidents import Incidents
from rag_eval_hooks.sample import Context, Status

__all__ = ["Endings"]

_logger = logging.getLogger("rag_eval_hooks")
_REMEMBERED = 10_000
"""Maximum number of requests without retrieved text that are remembered for `explain`."""
_MANY = 1000
"""If more roots are queued, threads that finish roots also process the queue."""
_PATIENCE_S = 2.0
"""Maximum number of seconds that a thread waits for another thread's sweep."""
_POLL_S = 0.001
_CHILDLESS = (
    "Capture saw no step of the run %r, because LangChain does not pass on callbacks from a "
    "constructor. Pass them in the call's config, or use rag_eval_hooks_langchain.enable(evals)."
)
_UNRETRIEVED = (
    "A request was not evaluated, because capture saw an answer but no retrieved text. If the "
    "request did retrieve: pass the handler to the outermost call, not to the model. "
    "enable(evals) also captures searches of a vector store, retrieval_tools= names search tools, "
    "and record_contexts(documents) records other searches. "
    "stats().without_retrieval counts such requests; see docs/capture.md, 'I see no sample'."
)


class Endings:
    """Reads and reports finished requests, and counts answers without retrieved text."""

    def __init__(
        self,
        on_end: Callable[[Interaction], None],
        on_wait: Callable[[], bool],
        by_hand: ManualCalls,
        suspensions: Suspensions,
        incidents: Incidents,
    ) -> None:
        self._on_end = on_end
        self._on_wait = on_wait
        self._by_hand = by_hand
        self._suspensions = suspensions
        self._incidents = incidents
        self._ended: deque[Interaction] = deque()
        self._lock = threading.RLock()
        self._sweeper: int | None = None
        self._traces: deque[str] = deque(maxlen=_REMEMBERED)
        self._warned_childless = False
        self._warned_unretrieved = False
        self._passed_over = 0
        # Whether a passed handler has seen only retrievers. None before its first run.
        self.lacks_model: bool | None = None

    @property
    def unretrieved(self) -> int:
        """Number of requests in which a model replied without retrieved text."""
        return self._passed_over - self._by_hand.joined

    def explains(self, key: str) -> bool:
        return key in self._traces

    def end(self, interaction: Interaction) -> None:
        is_well = interaction.status is Status.OK
        if interaction.interrupted and is_well:
            interaction.status = Status.INTERRUPTED
            self._on_wait()
            self._suspensions.add(interaction)
            return
        # Only passed handlers receive interrupts, so this may have been an interrupt.
        if interaction.resumable and not (is_well and interaction.passed):
            self._suspensions.add(interaction)
        self.add(interaction)

    def add(self, interaction: Interaction) -> None:
        self._ended.append(interaction)
        is_awaited, others = self._on_wait(), interaction.others
        # Another instrumentor's span waits for the decision.
        if not is_awaited or (others is not None and others.span is not None):
            with self._lock:
                self.decide()
        elif len(self._ended) > _MANY and self._sweeper is None:
            with self._lock:
                self.decide(most=2)

    @contextlib.contextmanager
    def sweeping(self) -> Iterator[bool]:
        until = time.monotonic() + _PATIENCE_S
        while self._sweeper not in (None, threading.get_ident()):
            if time.monotonic() > until:
                yield False
                return
            time.sleep(_POLL_S)
        # Not `acquire`: the application's signal handler may raise right after it.
        with self._lock:
            outer, self._sweeper = self._sweeper, threading.get_ident()
            try:
                yield True
            finally:
                self._sweeper = outer

    def decide(self, most: int | None = None) -> None:
        with contextlib.suppress(IndexError):
            for _ in range(len(self._ended) if most is None else most):
                interaction = self._ended.popleft()
                try:
                    self._decide(interaction)
                except Exception as error:  # noqa: BLE001 - the host's edge: nothing is lost uncounted
                    self._incidents.report("capture ending", error)
                    self._on_end(Interaction(otel_context.get_current(), is_readable=False))

    def _decide(self, interaction: Interaction) -> None:
        interaction.read()
        _replace_rewritten(interaction)
        interaction.snapshots = Snapshots()
        for key, told in objects_in(interaction.metadata).items():
            self._incidents.count(told, detail="the key is omitted")
            interaction.add_metadata({key: None})
        self._note_mistakes(interaction)
        for run in interaction.runs:
            run.state = None
        _mark_unfinished(interaction)
        if interaction.resumable:
            self._suspensions.reduce(interaction)
        is_manual = interaction.root.kind is RunKind.MANUAL
        if is_manual or any(run.kind is RunKind.MODEL for run in interaction.runs):
            self.lacks_model = False
        elif interaction.passed and interaction.root.kind is RunKind.RETRIEVER:
            self.lacks_model = self.lacks_model is not False
        if not interaction.is_readable or is_manual or self._is_request(interaction):
            self._on_end(interaction)
        elif not _asks_nothing(interaction):
            self._pass_over(interaction)

    def _note_mistakes(self, interaction: Interaction) -> None:
        """Count missing calls in a manual block, and options that matched nothing."""
        if interaction.status is not Status.OK:
            return
        for told, place in filter(None, interaction.unmet.values()):
            self._incidents.count(told, detail=place)
        end = interaction.root.state
        if not isinstance(end, BlockEnd):
            return
        answer = answer_of(interaction)
        if answer is None and not end.has_answer:
            lacks = "an answer"
            advice = "call it.answer(text), or it.answer(None) if there is no answer"
        elif answer is not None and interaction.retrieves is False and not interaction.left_out:
            lacks = "contexts"
            advice = "call it.contexts(documents), or it.contexts([]) if retrieval found none"
        else:
            return
        self._incidents.count(f"interaction without {lacks}", detail=f"{advice}, at {end.place}")

    def _is_request(self, interaction: Interaction) -> bool:
        if is_step(interaction) or _asks_nothing(interaction):
            return False
        if interaction.retrieves is not None:
            return interaction.retrieves
        if not has_retrieved(interaction, answer_of(interaction)):
            return False
        # A retrieval outside the block has the original texts with metadata.
        return not (interaction.is_joinable and self._by_hand.was_shown(interaction))

    def _pass_over(self, interaction: Interaction) -> None:
        self._by_hand.add(interaction)
        if _is_childless(interaction) and not self._warned_childless:
            self._warned_childless = True
            _logger.warning(_CHILDLESS, interaction.root.name)
        if not answers(interaction):
            return
        self._passed_over += 1
        self._traces.append(id_of(interaction.root.id))
        span = trace.get_current_span(interaction.otel).get_span_context()
        if span.is_valid:
            self._traces.append(format_trace_id(span.trace_id))
        # The manual calls handle a model that saw retrieved documents. A model called alone may
        # rewrite the question for a retriever.
        is_alone = interaction.root.kind is RunKind.MODEL
        if self._warned_unretrieved or (is_alone and interaction.is_joinable):
            return
        if not self._by_hand.was_shown(interaction):
            self._warned_unretrieved = True
            _logger.warning(_UNRETRIEVED)


def _mark_unfinished(interaction: Interaction) -> None:
    """Set the status `closed` if the answering model did not finish. Mark runs without an end."""
    if interaction.status is not Status.OK:
        return
    unfinished = [run for run in interaction.runs if run.unfinished]
    models = [run for run in unfinished if run.kind is RunKind.MODEL]
    if models and _is_closed_early(interaction):
        interaction.status = Status.CLOSED
        return
    around = {outer for model in models for outer in model.ancestors()}
    if any(run not in around and run not in models for run in unfinished):
        interaction.misses_event()


def _is_closed_early(interaction: Interaction) -> bool:
    """Return whether the request ended while a model was writing the answer.

    A background model, for example for a title, may outlast the answer.
    """
    root = interaction.root
    if root.kind is RunKind.MANUAL and root.text is not None:
        return False
    models = [run for run in interaction.runs if run.kind is RunKind.MODEL]
    if not models[-1].unfinished:
        return False
    answer = fold(root.text or "")
    said = (fold(run.text) for run in models if run.text and not run.unfinished)
    return not any(text and text in answer and 2 * len(text) >= len(answer) for text in said)


def _asks_nothing(interaction: Interaction) -> bool:
    kinds = (RunKind.RETRIEVER, RunKind.MODEL)
    root, ended_well = interaction.root, interaction.status is Status.OK
    return ended_well and not root.query and not any(r.kind in kinds for r in interaction.runs)


def _is_childless(interaction: Interaction) -> bool:
    root = interaction.root
    answered = interaction.passed and root.kind is RunKind.CHAIN and bool(root.query and root.text)
    return answered and len(interaction.runs) == 1


def _replace_rewritten(interaction: Interaction) -> None:
    """Give each document the text that a later step wrote for the document.

    A masked text must not reappear in a context, on a span, in metadata or in a postprocessor's
    prompt. Two stores may use the same id, so a step's text normally replaces only the text that
    the step received under this id.
    """
    for number, found in enumerate(interaction.lists):
        earlier = interaction.lists[:number]
        around = (found.run in one.run.ancestors() for one in earlier)
        is_step = found.run.kind is not RunKind.RETRIEVER or any(around)
        if found.origin is Origin.DOCUMENTS and is_step:
            _replace(interaction, found, earlier)
    interaction.lists = [
        replace(one, contexts=tuple(_without(c, interaction.rewritten) for c in one.contexts))
        for one in interaction.lists
    ]


def _replace(
    interaction: Interaction, found: DocumentList, earlier: Sequence[DocumentList]
) -> None:
    latest = _latest_texts(found.contexts)
    known = [context for one in earlier for context in one.contexts]
    before = {name: _earlier_text(name, latest[name], known, found.given) for name in latest}
    names, texts = {context.id for context in known}, {context.text for context in known}
    lost: set[str] = set()
    if any(context.id not in names and context.text not in texts for context in found.contexts):
        # A new document may contain the text of a document that the step dropped.
        lost = found.given.keys() - latest.keys()
    replaced = {name: text for name, text in before.items() if text}
    if not replaced and not lost:
        return
    for number, one in enumerate(earlier):
        kept = [c for c in one.contexts if c.id not in lost]
        contexts = (
            replace(c, text=latest[c.id]) if c.id and replaced.get(c.id) == c.text else c
            for c in kept
        )
        interaction.lists[number] = replace(one, contexts=tuple(contexts))
    if found.run.kind is RunKind.RERANKER:
        for inner in interaction.runs:
            if inner.kind is RunKind.MODEL and found.run in inner.ancestors():
                inner.prompt, inner.roles, inner.text = (), (), None
    for name, text in replaced.items():
        interaction.rewritten.setdefault(name, set()).add(text)


def _latest_texts(contexts: Sequence[Context]) -> dict[str, str]:
    latest: dict[str, str] = {}
    for context in contexts:
        if context.id is not None:
            before = latest.get(context.id, context.text)
            same = before == context.text
            latest[context.id] = before if same else f"{before}\n{context.text}"
    return latest


def _earlier_text(
    name: str, latest: str, known: Sequence[Context], given: Mapping[str, str]
) -> str | None:
    was = given.get(name, latest)
    if was not in latest:
        return was
    texts = {context.text for context in known if context.id == name}
    # A part of a text may be a preview, if the step's input is unknown.
    if latest in texts or (name not in given and any(latest in text for text in texts)):
        return None
    others = {text for text in texts if text not in latest}
    return _most_alike(others, latest) if others else None


def _most_alike(texts: Collection[str], text: str) -> str:
    own = {one: runs_of(one) | set(words(one)) for one in (*texts, text)}
    return max(texts, key=lambda one: len(own[one] & own[text]) / max(1, len(own[one])))


def _without(context: Context, rewritten: Mapping[str | None, Collection[str]]) -> Context:
    texts = [text for text in rewritten.get(context.id, ()) if text not in context.text]
    metadata = {
        key: value
        for key, value in context.metadata.items()
        if not (isinstance(value, str) and any(text in value for text in texts))
    }
    return replace(context, metadata=metadata) if texts else context
