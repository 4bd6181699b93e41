"""Joins the application's separate calls of retrievers and models into requests."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from opentelemetry import context as otel_context

from rag_eval_hooks.capture.bounded import remember
from rag_eval_hooks.capture.records import SAME_LINE, Interaction, Run, RunKind
from rag_eval_hooks.capture.text_forms import fold, is_distinctive, is_distinctive_text
from rag_eval_hooks.incidents import Incidents
from rag_eval_hooks.sample import Status

_MOST = 1000
"""Maximum number of waiting retrievals, and of waiting requests."""
_MOST_CHARS = 10_000_000
_REMEMBERED_NS = 60 * 10**9
"""A model call can join a retrieval that ended at most this long before."""
_PAUSE_NS = 5 * 10**9
"""A request is complete when this time has passed since the request's last call."""
_BEGINNING = 240
"""Number of leading characters of a document that a prompt must contain."""
_MOST_ADDED = 0.2
"""Maximum fraction of a formatter's output that is not from documents."""
_STEPS = (RunKind.RETRIEVER, RunKind.RERANKER, RunKind.EMBEDDING)
_ADVICE = (
    "The application called a retriever and a model separately, so capture missed the request. "
    "Call rag_eval_hooks_langchain.enable(evals). "
    "Or wrap both calls in evals.interaction(question)."
)


def answers(interaction: Interaction) -> bool:
    is_alone = interaction.passed and len(interaction.runs) == 1 and interaction.root.query
    # LangChain does not pass a constructor's handler to the chain's steps.
    spoke = any(run.text for run in (interaction.runs if is_alone else interaction.models))
    return spoke and interaction.status is Status.OK and not is_step(interaction)


def is_step(interaction: Interaction) -> bool:
    root = interaction.root
    if root.kind in _STEPS:
        return True
    if interaction.models:
        return False
    if root.kind is not RunKind.CHAIN or interaction.passed:
        return root.kind is RunKind.TOOL
    if not root.text or interaction.chosen is not None:
        return False
    text = rest = fold(root.text)
    for document in _documents(interaction):
        rest = rest.replace(document, "")
    return len(rest) <= _MOST_ADDED * len(text)


def _documents(interaction: Interaction) -> list[str]:
    return [fold(context.text) for found in interaction.lists for context in found.contexts]


def _models(interaction: Interaction) -> list[Run]:
    return [run for run in interaction.models if run.prompt and not run.within(RunKind.RETRIEVER)]


def _prompt(interaction: Interaction) -> str:
    return fold("\n".join(text for run in _models(interaction) for text in run.prompt))


def _answer(interaction: Interaction) -> str:
    own, models = interaction.root.text, _models(interaction)
    return (own if own is not None or not models else models[-1].text) or ""


def _shows(prompt: str, document: str) -> bool:
    return is_distinctive(document) and document[:_BEGINNING] in prompt


@dataclass(slots=True, eq=False)
class _Request:
    # model calls whose prompts contain documents of the retrievals
    calls: list[Interaction]
    retrievals: dict[Interaction, list[str]]
    begun: int = field(default_factory=time.monotonic_ns)
    last: int = field(default_factory=time.monotonic_ns)

    def takes(self, call: Interaction, retrievals: Mapping[Interaction, object]) -> bool:
        nearness = max(call.nearness(one) for one in self.calls)
        if not self.retrievals.keys().isdisjoint(retrievals):
            return nearness >= 0
        prompt = _prompt(call) if nearness > 0 else ""
        said = {fold(_answer(one)) for one in self.calls}
        return sum(is_distinctive(text) and text in prompt for text in said) > 1

    def is_over(self, opened: Sequence[Interaction], *, at_once: bool) -> bool:
        now, parts = time.monotonic_ns(), (*self.retrievals, *self.calls)
        is_recent = now - self.begun <= _REMEMBERED_NS
        if is_recent and any(one.nearness(part) > 0 for one in opened for part in parts):
            self.last = now
            return False
        return at_once or now - self.last > _PAUSE_NS

    def joined(self) -> Interaction:
        answering = self._answering()
        parts = sorted((*self.retrievals, *self.calls), key=lambda one: one.root.start)
        joined, own = answering.part(()), answering.root
        is_chain = own.kind is RunKind.CHAIN
        name, kind = (own.name, own.kind) if is_chain else ("interaction", RunKind.MANUAL)
        root = Run(own.id, kind, name, None, joined, parts[0].root.start, outermost=True)
        root.end = max(part.root.end or 0 for part in parts)
        root.text = own.text if is_chain else _answer(answering) or None
        root.error_type, root.facts = own.error_type, own.facts
        joined.runs, joined.kept_chars = [root], 0
        for part in reversed(parts):
            step = part.part(part.runs)
            # The call's root becomes a step of the joined request.
            step.runs.insert(0, root)
            joined.absorb(step)
        root.query = None if self._is_prompt(own.query or "") else own.query
        texts = answering.asked if is_chain else self._typed(answering)
        joined.asked = tuple(text for text in texts if text and not self._is_prompt(text))
        joined.attempted = True
        # Prefer a call in a trace, because a late generator may run without a current span.
        in_trace = (part for part in (answering, *parts) if part.span_context.is_valid)
        joined.otel = next((part.otel for part in in_trace), joined.otel)
        joined.opened = min(part.opened for part in parts)
        return joined

    def _typed(self, answering: Interaction) -> tuple[str, ...]:
        typed = _models(answering)[-1].user_text
        # Keep the type `CutText`, which marks a cut text.
        typed = type(typed)(typed.strip())
        queries = (fold(one.root.query or "") for one in self.retrievals)
        return () if any(query and query in fold(typed) for query in queries) else (typed,)

    def _is_prompt(self, text: str) -> bool:
        documents = (document for texts in self.retrievals.values() for document in texts)
        return any(_shows(fold(text), document) for document in documents)

    def _answering(self) -> Interaction:
        earlier = [fold(_answer(one)) for one in self.calls]
        for place, call in reversed(list(enumerate(self.calls))):
            answer, prompt = _answer(call), _prompt(call)
            said = (text for text in earlier[:place] if is_distinctive(text) and text in prompt)
            is_check = not is_distinctive_text(answer) and any(said)
            if answer and not is_check:
                return call
        return self.calls[-1]


class ManualCalls:
    """Joins retrievals and model calls of one request. Not thread-safe.

    Only calls of the frameworks in `everywhere` are joined. Capture sees every call of these
    frameworks in the process.
    """

    joined = 0

    def __init__(self, on_end: Callable[[Interaction], None], incidents: Incidents) -> None:
        self._on_end = on_end
        self._incidents = incidents
        self.everywhere: set[str] = set()
        self.forked()

    def forked(self) -> None:
        # Folded documents of each waiting retrieval.
        self._retrievals: dict[Interaction, list[str]] = {}
        self._requests: list[_Request] = []

    def add(self, interaction: Interaction) -> bool:
        """Add a finished call. Return whether its prompt contains a retrieved document."""
        if is_step(interaction):
            if interaction.retrieves is not False:
                remember(self._retrievals, interaction, _documents(interaction), _MOST)
            return False
        retrievals = self.shown_to(interaction)
        request = next((one for one in self._requests if one.takes(interaction, retrievals)), None)
        if request is not None:
            request.calls.append(interaction)
            request.retrievals |= retrievals
            request.last = time.monotonic_ns()
        elif retrievals:
            self._requests.append(_Request([interaction], retrievals))
            if len(self._requests) > _MOST:
                self._finish(self._requests[0])
        return bool(retrievals)

    def shown_to(self, interaction: Interaction) -> dict[Interaction, list[str]]:
        models = _models(interaction)
        if not (models and self._retrievals):
            return {}
        # Use the last model's start, because a chain may not report its retriever's call.
        began, prompt = max(run.start for run in models), _prompt(interaction)
        givers: dict[str, list[Interaction]] = {}
        for one, texts in self._retrievals.items():
            if (one.root.end or 0) <= began and interaction.nearness(one) >= 0:
                for text in filter(lambda text: _shows(prompt, text), texts):
                    givers.setdefault(text, []).append(one)
        chosen = {_giver(some, interaction, prompt) for some in givers.values()}
        return {one: texts for one, texts in self._retrievals.items() if one in chosen}

    def sweep(self, opened: Sequence[Interaction], *, at_once: bool) -> None:
        for request in list(self._requests):
            if request.is_over(opened, at_once=at_once):
                self._finish(request)
        oldest, left = time.time_ns() - _REMEMBERED_NS, _MOST_CHARS
        for one in reversed(list(self._retrievals)):
            left -= one.chars
            if (one.root.end or 0) < oldest or left < 0:
                del self._retrievals[one]

    def _finish(self, request: _Request) -> None:
        self._requests.remove(request)
        for retrieval in request.retrievals:
            self._retrievals.pop(retrieval, None)
        if not all(one.is_joinable for one in (*request.retrievals, *request.calls)):
            self._incidents.count(_ADVICE)
            return
        try:
            joined = request.joined()
        except Exception as error:  # noqa: BLE001 - every lost request must be counted
            self._incidents.report("capture manual calls", error)
            joined = Interaction(otel_context.get_current(), is_readable=False)
        self.joined += sum(map(answers, request.calls))
        self._on_end(joined)


def _giver(givers: Sequence[Interaction], reader: Interaction, prompt: str) -> Interaction | None:
    """Return the retrieval whose document is in the reader's prompt, or None if unsure."""

    def certainty(one: Interaction) -> tuple[bool, int, int]:
        query = fold(one.root.query or "")
        return bool(query) and query in prompt, reader.nearness(one), one.root.end or 0

    best = max(givers, key=certainty)
    is_asked, nearness, end = certainty(best)
    is_last = all((one.root.end or 0) < end or one.root.query == best.root.query for one in givers)
    return best if is_asked or nearness == SAME_LINE or is_last else None
