"""Interactions of a retriever and a model that the application calls by hand, one by one."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable

from opentelemetry import context as otel_context

from rag_eval_hooks.capture.hand_calls import HandCall, answers, picks_tool, retrievals_shown
from rag_eval_hooks.capture.join_calls import join_calls, rewriting
from rag_eval_hooks.capture.places import Nearness
from rag_eval_hooks.capture.records import Interaction
from rag_eval_hooks.capture.text_forms import fold, is_distinctive
from rag_eval_hooks.incidents import Incidents

__all__ = ["CallsByHand"]

_MOST = 1000
"""Root runs that may wait; the oldest is forgotten for one more."""
_MOST_CHARS = 10_000_000
_REMEMBERED = 60.0
"""Seconds for which a retrieval waits for the model that is shown it."""
_PAUSE = 5.0
"""Seconds without a further call after which a request is over, where nothing else tells."""
_ADVICE = (
    "A retriever and a model were called separately, so the request was not captured. Call "
    "RagEvalCallbackHandler.enable(evals), or wrap both in evals.interaction(question)."
)


class _Request:
    """Calls that belong together, by the documents that they share."""

    def __init__(self, call: HandCall) -> None:
        self.calls = [call]
        self.last = time.monotonic()

    @property
    def retrievals(self) -> list[HandCall]:
        """Retrievals that a call was shown, each once."""
        return list({id(one): one for call in self.calls for one in call.retrievals}.values())

    def add(self, call: HandCall) -> None:
        """Add a further call."""
        self.calls.append(call)
        self.last = time.monotonic()

    def is_continued_by(self, call: HandCall) -> bool:
        """Return whether a call is a part of this request.

        It is shown what a call of the request was shown, or it is shown what a model of the
        request asked for, or it sums up what several of them said.
        """
        nearness = max(call.nearness(one) for one in self.calls)
        retrievals = self.retrievals
        shown = [one for one in call.retrievals if one in retrievals]
        if shown:
            return nearness > 0 or (
                nearness is Nearness.UNKNOWN
                and any(one.nearness(r) > 0 for r in shown for one in (call, *self.calls))
            )
        if nearness <= 0:
            return False
        if any(picks_tool(one, call.retrievals) for one in self.calls):
            return True
        said = {fold(one.text) for one in self.calls}
        if call.retrievals:
            queries = [one.query for one in call.retrievals]
            queries = [query for query in queries if is_distinctive(query)]
            return any(query in text for query in queries for text in said)
        return sum(is_distinctive(text) and text in call.prompt for text in said) > 1

    def is_over(self, others: Iterable[_Request]) -> bool:
        """Return whether its place is gone, or another request began in its line of execution."""
        last = self.calls[-1]
        calls = [*self.calls, *self.retrievals]
        if all(one.place.is_over for one in calls):
            return True
        begun = (r.calls[0] for r in others if r is not self)
        return any(
            one.root.start > last.end and one.nearness(last) is Nearness.LINE for one in begun
        )


class CallsByHand:
    """Joins retrievals and model calls of one request, in the clock's thread.

    Texts decide, span, task and thread confirm: a call belongs to the retrieval whose documents
    its prompt shows, never to one in another trace. What cannot be told apart is left alone.

    Args:
        on_end: Called with every interaction.
        incidents: Counts what is no interaction because capture is not on everywhere.

    Attributes:
        everywhere: Frameworks of which every run of the process is captured. Calls of others are
            not joined, because nothing is known of the calls in between.
        joined: Calls of models that are no interaction by themselves, but a part of one.
    """

    joined = 0

    def __init__(self, on_end: Callable[[Interaction], None], incidents: Incidents) -> None:
        self._on_end = on_end
        self._incidents = incidents
        self.everywhere: set[str] = set()
        self.forked()

    def forked(self) -> None:
        """Forget everything: the parent of a forked process reports it."""
        self._ended: deque[HandCall] = deque(maxlen=_MOST)
        self._retrievals: list[HandCall] = []
        self._loose: list[HandCall] = []
        self._requests: list[_Request] = []
        self._opened: dict[tuple[int, int], HandCall] = {}

    def add(self, interaction: Interaction) -> bool:
        """Note an ended root that is no interaction by itself. O(1), from any thread.

        Returns:
            Whether it is a retrieval, after which `sweep` is needed.
        """
        if interaction.place is None:
            return False
        call = HandCall(interaction, interaction.place)
        if call.retrieves or any(run.prompt for run in interaction.runs):
            self._ended.append(call)
        return call.retrieves

    @property
    def waits(self) -> bool:
        """True if `sweep` has something to do."""
        return bool(self._ended or self._requests or self._retrievals or self._loose)

    def is_joined(self, interaction: Interaction) -> bool:
        """Return whether a root belongs to a retrieval outside of it, and both are captured.

        What that found is what the root's steps hold, undivided and with its metadata.
        """
        return interaction.framework in self.everywhere and self.was_shown(interaction)

    def was_shown(self, interaction: Interaction) -> bool:
        """Return whether a root's prompts show documents of retrievals outside of it."""
        if interaction.place is None:
            return False
        waiting = [*self._retrievals, *(one for one in list(self._ended) if one.retrieves)]
        return bool(retrievals_shown(HandCall(interaction, interaction.place), waiting))

    def sweep(self, opened: Iterable[Interaction], *, at_once: bool) -> None:
        """Join what ended, and report requests that are over.

        Args:
            opened: Roots that are open, and may yet belong to a request.
            at_once: Whether to report all that no open root belongs to.
        """
        while self._ended:
            self._take(self._ended.popleft())
        if self._requests:
            self._report(opened, at_once=at_once)
        self._forget()

    def _take(self, call: HandCall) -> None:
        if call.retrieves:
            self._retrievals.append(call)
            return
        call.retrievals = retrievals_shown(call, self._retrievals)
        request = next((r for r in reversed(self._requests) if r.is_continued_by(call)), None)
        if request is not None:
            request.add(call)
        elif call.retrievals:
            self._requests.append(_Request(call))
            if len(self._requests) > _MOST:
                self._end(self._requests.pop(0))
        else:
            self._loose.append(call)

    def _report(self, opened: Iterable[Interaction], *, at_once: bool) -> None:
        now = time.monotonic()
        going_on = self._going_on(opened)
        for request in list(self._requests):
            if any(self._may_continue(request, call) for call in going_on):
                request.last = now
            elif at_once or now - request.last > _PAUSE or request.is_over(self._requests):
                self._requests.remove(request)
                self._end(request)

    def _going_on(self, opened: Iterable[Interaction]) -> list[HandCall]:
        """Return calls that are open; a call is made anew only if it has got further runs."""
        known, self._opened = self._opened, {}
        for one in opened:
            if one.place is None:
                continue
            key = (id(one), len(one.runs))
            call = known.get(key)
            if call is None or call.interaction is not one:
                call = HandCall(one, one.place)
            call.retrievals = retrievals_shown(call, self._retrievals)
            self._opened[key] = call
        return list(self._opened.values())

    def _may_continue(self, request: _Request, call: HandCall) -> bool:
        is_next = any(call.nearness(one) is Nearness.LINE for one in request.calls)
        return is_next or request.is_continued_by(call)

    def _end(self, request: _Request) -> None:
        # Searched in every further prompt otherwise.
        used = set(map(id, request.retrievals))
        self._retrievals = [one for one in self._retrievals if id(one) not in used]
        parts = [*request.calls, *request.retrievals]
        if not all(part.interaction.framework in self.everywhere for part in parts):
            self._incidents.count(_ADVICE)
            return
        first = min(call.root.start for call in parts)
        asking = [
            one
            for one in self._loose
            if one.end <= first and any(one.nearness(call) > 0 for call in request.calls)
        ]
        try:
            asking = rewriting(asking, request.retrievals)
            joined = join_calls(request.calls, request.retrievals, asking)
        except Exception as error:  # noqa: BLE001 - the host's edge: nothing is lost uncounted
            self._incidents.report("calls by hand", error)
            joined = Interaction(otel_context.get_current(), is_readable=False)
        self.joined += sum(answers(one.interaction) for one in (*request.calls, *asking))
        self._on_end(joined)

    def _forget(self) -> None:
        """Forget what no request needs any more."""
        oldest = time.time_ns() - int(_REMEMBERED * 1e9)
        self._retrievals = _bounded(self._retrievals, oldest)
        self._loose = _bounded(self._loose, oldest)


def _bounded(calls: list[HandCall], oldest: int) -> list[HandCall]:
    kept: list[HandCall] = []
    chars = 0
    for call in reversed(calls[-_MOST:]):
        chars += call.interaction.chars
        if call.end < oldest or chars > _MOST_CHARS:
            break
        kept.append(call)
    return kept[::-1]
