"""Joins retrievers and models that the application calls separately into requests."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property

from opentelemetry import context as otel_context

from rag_eval_hooks.capture.records import SAME_LINE, Interaction, Place, Run, RunKind
from rag_eval_hooks.capture.text_forms import fold, is_distinctive, is_distinctive_text
from rag_eval_hooks.incidents import Incidents
from rag_eval_hooks.sample import Status

_MOST = 1000
"""Maximum number of waiting root runs. Each further run evicts the oldest."""
_MOST_CHARS = 10_000_000
_REMEMBERED_S = 60
"""Seconds in which a later model call may be matched to a retrieval by the documents in its prompt.
"""
_PAUSE_S = 5
"""Seconds after the last call until a request is complete."""
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
    spoke = any(run.text for run in interaction.models)
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


class _FinishedCall:
    def __init__(self, interaction: Interaction, place: Place) -> None:
        self.interaction = interaction
        self.place = place
        self.root = interaction.root
        self.end = self.root.end or 0
        self.retrieves = interaction.retrieves is not False and is_step(interaction)
        outside = (run for run in interaction.models if not run.within(RunKind.RETRIEVER))
        self.models = [run for run in outside if run.prompt]
        self.query = fold(self.root.query or "")
        own = self.root.text
        self.text = (own if own is not None or not self.models else self.models[-1].text) or ""
        self.retrievals: list[_FinishedCall] = []

    @cached_property
    def prompt(self) -> str:
        return fold("\n".join(text for run in self.models for text in run.prompt))

    @cached_property
    def documents(self) -> list[str]:
        return _documents(self.interaction)

    def shows(self, text: str) -> bool:
        return is_distinctive(text) and text in self.prompt

    def find_retrievals(self, known: Sequence[_FinishedCall]) -> list[_FinishedCall]:
        # A chain may not report its retriever's call.
        began = max((run.start for run in self.models), default=self.root.start)
        givers: dict[str, list[_FinishedCall]] = {}
        for one in known:
            if one.end <= began and self.place.nearness(one.place) >= 0:
                for text in one.documents:
                    givers.setdefault(text, []).append(one)
        chosen = {self._giver(some) for text, some in givers.items() if _shows(self.prompt, text)}
        return [one for one in known if one in chosen]

    def _giver(self, givers: Sequence[_FinishedCall]) -> _FinishedCall | None:
        def certainty(one: _FinishedCall) -> tuple[bool, int, int]:
            asked = bool(one.query) and one.query in self.prompt
            return asked, self.place.nearness(one.place), one.end

        best = max(givers, key=certainty)
        asked, nearness, end = certainty(best)
        is_last = all(one.end < end or one.query == best.query for one in givers)
        return best if asked or nearness == SAME_LINE or is_last else None


def _shows(prompt: str, document: str) -> bool:
    return is_distinctive(document) and document[:_BEGINNING] in prompt


class _CallGroup:
    def __init__(self, call: _FinishedCall) -> None:
        self.calls = [call]
        self.begun = self.last = time.monotonic()

    @property
    def retrievals(self) -> list[_FinishedCall]:
        return list(dict.fromkeys(one for call in self.calls for one in call.retrievals))

    @property
    def parts(self) -> list[_FinishedCall]:
        return [*self.retrievals, *self.calls]

    def takes(self, call: _FinishedCall) -> bool:
        nearness = max(call.place.nearness(one.place) for one in self.calls)
        if not set(self.retrievals).isdisjoint(call.retrievals):
            return nearness >= 0
        return nearness > 0 and sum(map(call.shows, {fold(one.text) for one in self.calls})) > 1

    def is_over(self, opened: Sequence[Place], *, at_once: bool) -> bool:
        now = time.monotonic()
        if now - self.begun <= _REMEMBERED_S and any(
            place.nearness(part.place) > 0 for place in opened for part in self.parts
        ):
            self.last = now
            return False
        return at_once or now - self.last > _PAUSE_S

    def joined(self) -> Interaction:
        answering = self._answering()
        parts = sorted(self.parts, key=lambda call: call.root.start)
        joined = answering.interaction.part([answering.root])
        joined.lists, joined.kept_chars = [], 0
        root = joined.root
        is_chain = root.kind is RunKind.CHAIN
        if not is_chain:
            typed = answering.models[-1].user_text
            # Keep the type `CutText`, which marks a cut text.
            typed = type(typed)(typed.strip())
            is_asked = any(one.query and one.query in fold(typed) for one in self.retrievals)
            joined.asked = () if is_asked else (typed,)
            kind, text = RunKind.MANUAL, answering.text or None
            error_type = root.error_type
            root = Run(object(), kind, "interaction", None, joined, root.start, text=text)
            root.error_type = error_type
            joined.runs = [root]
        # A text with documents is a prompt, not a question.
        query = None if self._is_prompt(root.query or "") else root.query
        asked = tuple(text for text in joined.asked if text and not self._is_prompt(text))
        root.outermost = True
        root.start, root.end = parts[0].root.start, max(part.end for part in parts)
        for part in reversed(parts):
            own = part.interaction.part(part.interaction.runs)
            if not (part is answering and is_chain):
                # The call's root becomes a step of the joined request.
                own.runs.insert(0, root)
            joined.absorb(own)
        root.query, joined.asked, joined.attempted = query, asked, True
        # Prefer a call in a trace, because a late generator may run without a current span.
        in_trace = (part for part in (answering, *parts) if part.place.is_in_trace)
        joined.otel = next((part.interaction.otel for part in in_trace), joined.otel)
        joined.opened = min(part.interaction.opened for part in parts)
        return joined

    def _is_prompt(self, text: str) -> bool:
        documents = (document for one in self.retrievals for document in one.documents)
        return any(_shows(fold(text), document) for document in documents)

    def _answering(self) -> _FinishedCall:
        for place, call in reversed(list(enumerate(self.calls))):
            is_check = not is_distinctive_text(call.text) and any(
                call.shows(fold(one.text)) for one in self.calls[:place]
            )
            if call.text and not is_check:
                return call
        return self.calls[-1]


class ManualCalls:
    """Joins retrievals and model calls of one request, on the worker's thread.

    `everywhere` names the frameworks whose calls are captured in the whole process. Calls of other
    frameworks are not joined, because capture may have missed a call between them.
    """

    joined = 0

    def __init__(self, on_end: Callable[[Interaction], None], incidents: Incidents) -> None:
        self._on_end = on_end
        self._incidents = incidents
        self.everywhere: set[str] = set()
        self.handlers: Mapping[str, bool] = {}
        self.forked()

    def forked(self) -> None:
        self._ended: deque[_FinishedCall] = deque(maxlen=_MOST)
        self._retrievals: list[_FinishedCall] = []
        self._requests: list[_CallGroup] = []

    def add(self, interaction: Interaction) -> None:
        if interaction.place is not None:
            call = _FinishedCall(interaction, interaction.place)
            if call.retrieves or call.models:
                self._ended.append(call)

    def was_shown(self, interaction: Interaction) -> bool:
        if interaction.place is None:
            return False
        known = [*self._retrievals, *(one for one in self._ended if one.retrieves)]
        return bool(_FinishedCall(interaction, interaction.place).find_retrievals(known))

    def sweep(self, opened: Sequence[Interaction], *, at_once: bool) -> None:
        while self._ended:
            self._take(self._ended.popleft())
        places = [one.place for one in opened if one.place is not None]
        for request in [one for one in self._requests if one.is_over(places, at_once=at_once)]:
            self._requests.remove(request)
            self._finish(request)
        self._retrievals = _remembered(self._retrievals)

    def _take(self, call: _FinishedCall) -> None:
        if call.retrieves:
            self._retrievals.append(call)
            return
        call.retrievals = call.find_retrievals(self._retrievals)
        request = next((one for one in reversed(self._requests) if one.takes(call)), None)
        if request is not None:
            request.calls.append(call)
            request.last = time.monotonic()
        elif call.retrievals:
            self._requests.append(_CallGroup(call))
            if len(self._requests) > _MOST:
                self._finish(self._requests.pop(0))

    def _finish(self, request: _CallGroup) -> None:
        self._retrievals = [one for one in self._retrievals if one not in request.retrievals]
        if not all(one.interaction.is_joinable for one in request.parts):
            places = ", ".join(self.handlers)
            self._incidents.count(_ADVICE, detail=places and f"It created the handler at {places}")
            return
        try:
            joined = request.joined()
        except Exception as error:  # noqa: BLE001 - every lost request must be counted
            self._incidents.report("capture manual calls", error)
            joined = Interaction(otel_context.get_current(), is_readable=False)
        self.joined += sum(answers(one.interaction) for one in request.calls)
        self._on_end(joined)


def _remembered(calls: Sequence[_FinishedCall]) -> list[_FinishedCall]:
    oldest, left = time.time_ns() - _REMEMBERED_S * 10**9, _MOST_CHARS
    kept: list[_FinishedCall] = []
    for call in reversed(calls[-_MOST:]):
        left -= call.interaction.chars
        if call.end < oldest or left < 0:
            break
        kept.insert(0, call)
    return kept
