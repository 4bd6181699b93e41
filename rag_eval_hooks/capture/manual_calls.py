"""Joins separate calls of a retriever and of models into one request."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from rag_eval_hooks.capture.answering import may_answer
from rag_eval_hooks.capture.bounded import remember
from rag_eval_hooks.capture.records import Interaction, Run, RunKind
from rag_eval_hooks.capture.text_forms import fold, is_distinctive

_MOST = 1000  # waiting retrievals, and waiting requests
_MOST_CHARS = 10_000_000
_REMEMBERED_NS = 60 * 10**9  # how long a retrieval or a request waits for further calls
_PAUSE_NS = 5 * 10**9  # a request is complete this long after its last call
_BEGINNING = 240  # leading characters of a document that a prompt must contain
_NEAREST = 2


def _nearness(one: Interaction, other: Interaction) -> int:
    """Estimate whether two calls belong to one request: -1 no, 0 unknown, 1 maybe, 2 likely."""
    span, around = one.span_context, other.span_context
    if span.is_valid and around.is_valid and span.trace_id != around.trace_id:
        return -1
    shares_span = span.is_valid and span.span_id == around.span_id
    if one.line != other.line:
        return int(shares_span)
    return _NEAREST if shares_span or not isinstance(one.line, int) else 1


def _models(call: Interaction) -> list[Run]:
    return [run for run in call.models if run.prompt and not run.within(RunKind.RETRIEVER)]


def _prompt(call: Interaction) -> str:
    return fold("\n".join(text for run in _models(call) for text in run.prompt))


def _answer(call: Interaction) -> str:
    return (_models(call)[-1].text if call.root.text is None else call.root.text) or ""


def _shows(prompt: str, document: str) -> bool:
    return is_distinctive(document) and document[:_BEGINNING] in prompt


@dataclass(slots=True, eq=False)
class _OpenRequest:
    # Model calls whose prompts contain documents of the retrievals.
    calls: list[Interaction]
    # Folded documents by retrieval.
    retrievals: dict[Interaction, list[str]]

    def takes(self, call: Interaction, prompt: str, shown: Mapping[Interaction, object]) -> bool:
        is_shown = not self.retrievals.keys().isdisjoint(shown)
        if len(self.calls) < 2 and not is_shown:
            return False
        nearness = max(_nearness(call, one) for one in self.calls)
        said = {fold(_answer(one)) for one in self.calls} if nearness > 0 else ()
        is_said = sum(is_distinctive(text) and text in prompt for text in said) > 1
        return nearness >= 0 if is_shown else is_said

    def is_over(self, opened: Sequence[Interaction], *, at_once: bool) -> bool:
        ages = [time.time_ns() - (one.root.end or 0) for one in self.calls]
        parts = (*self.retrievals, *self.calls)
        is_busy = any(_nearness(one, part) > 0 for one in opened for part in parts)
        is_complete = not is_busy and (at_once or min(ages) > _PAUSE_NS)
        return is_complete or max(ages) > _REMEMBERED_NS

    def joined(self) -> Interaction:
        answering = self._answering()
        parts = sorted((*self.retrievals, *self.calls), key=lambda one: one.root.start)
        joined, own = replace(answering, lists=[], kept_chars=0, attempted=True), answering.root
        is_chain = own.kind is RunKind.CHAIN
        name, kind = (own.name, own.kind) if is_chain else ("interaction", RunKind.MANUAL)
        root = Run(own.id, kind, name, None, joined, parts[0].root.start, outermost=True)
        root.end = max(part.root.end or 0 for part in parts)
        root.text = own.text if is_chain else _answer(answering) or None
        root.error_type, root.facts, joined.runs = own.error_type, own.facts, [root]
        # Prefer a call in a trace, because a late generator may run without a current span.
        in_trace = (part for part in (answering, *parts) if part.span_context.is_valid)
        joined.otel = next(in_trace, answering).otel
        joined.pending.append(partial(self._fill, joined, answering, parts))
        return joined

    def _fill(self, joined: Interaction, by: Interaction, parts: Sequence[Interaction]) -> None:
        own, typed = by.root, _models(by)[-1].user_text
        for part in reversed(parts):
            # The call's root becomes a step of the joined request.
            part.runs.insert(0, joined.root)
            joined.absorb(part)
        queries = [fold(one.runs[1].query or "") for one in self.retrievals]
        is_asked = any(query and query in fold(typed) for query in queries)
        # Keep the type `CutText`, which marks a cut text.
        texts = [] if is_asked else [type(typed)(typed.strip())]
        texts = [*by.asked] if own.kind is RunKind.CHAIN else texts
        joined.asked = tuple(text for text in texts if text and not self._is_prompt(text))
        joined.root.query = None if self._is_prompt(own.query or "") else own.query

    def _is_prompt(self, text: str) -> bool:
        folded = fold(text)
        return any(_shows(folded, one) for texts in self.retrievals.values() for one in texts)

    def _answering(self) -> Interaction:
        asked = {_models(one)[-1]: one for one in self.calls}
        told = (one for run, one in reversed(asked.items()) if may_answer(run, [*asked]))
        return next(filter(_answer, told), self.calls[-1])


class ManualCalls:
    def __init__(self, on_end: Callable[[Interaction], None]) -> None:
        self._on_end = on_end
        self._lock = threading.RLock()
        # folded documents of each waiting retrieval
        self._retrievals: dict[Interaction, list[str]] = {}
        self._requests: list[_OpenRequest] = []

    def add_retrieval(self, call: Interaction) -> None:
        texts = [fold(one.text) for found in call.lists for one in found.contexts]
        with self._lock:
            remember(self._retrievals, call, texts, _MOST)

    def add(self, call: Interaction) -> bool:
        if not (self._retrievals and (prompt := _prompt(call))):
            return False
        with self._lock:
            shown = self._shown(call, prompt)
            used = {one for request in self._requests for one in request.retrievals}
            free = {one: texts for one, texts in shown.items() if one not in used}
            for request in self._requests:
                if request.takes(call, prompt, shown):
                    request.calls.append(call)
                    request.retrievals |= free
                    return True
            if is_new := bool(free) and len(self._requests) < _MOST:
                self._requests.append(_OpenRequest([call], free))
            return is_new

    def _shown(self, call: Interaction, prompt: str) -> dict[Interaction, list[str]]:
        # Use the last model's start, not the chain's start: the retriever may run inside the chain.
        began = max(run.start for run in _models(call))
        givers: dict[str, list[Interaction]] = {}
        for one, texts in self._retrievals.items():
            read = [text for text in texts if _shows(prompt, text)]
            if read and (one.root.end or 0) <= began and _nearness(call, one) >= 0:
                for text in read:
                    givers.setdefault(text, []).append(one)
        chosen = {_giver(some, call, prompt) for some in givers.values()}
        return {one: texts for one, texts in self._retrievals.items() if one in chosen}

    def sweep(self, opened: Sequence[Interaction], *, at_once: bool) -> None:
        with self._lock:
            over = [one for one in self._requests if one.is_over(opened, at_once=at_once)]
            self._requests = [one for one in self._requests if one not in over]
            used = {retrieval for one in over for retrieval in one.retrievals}
            oldest, left = time.time_ns() - _REMEMBERED_NS, _MOST_CHARS
            for one in reversed(list(self._retrievals)):
                left -= one.chars
                if one in used or (one.root.end or 0) < oldest or left < 0:
                    del self._retrievals[one]
        for request in over:
            self._on_end(request.joined())


def _giver(givers: Sequence[Interaction], call: Interaction, prompt: str) -> Interaction | None:
    queries = {one: fold(one.root.query or "") for one in givers}
    ranks = {
        one: (bool(query) and query in prompt, _nearness(call, one), one.root.end or 0)
        for one, query in queries.items()
    }
    best = max(givers, key=ranks.__getitem__)
    is_asked, nearness, end = ranks[best]
    is_last = all(ranks[one][2] < end or queries[one] == queries[best] for one in givers)
    return best if is_asked or nearness == _NEAREST or is_last else None
