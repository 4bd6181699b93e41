"""Framework-free bookkeeping: run events in, ended interactions out."""

from __future__ import annotations

import atexit
import contextlib
import threading
import time
import weakref
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

from opentelemetry import context as otel_context

from rag_eval_hooks.capture.contexts.search import drop_unused
from rag_eval_hooks.capture.endings import closed_early, status_of
from rag_eval_hooks.capture.interaction import DocumentList, Interaction, Origin, Run, RunKind
from rag_eval_hooks.capture.manual import enclosing_run
from rag_eval_hooks.capture.suspended import Fits, Parked
from rag_eval_hooks.capture.text_limits import Room
from rag_eval_hooks.sample import Context, Status
from rag_eval_hooks.suppress import is_quiet

__all__ = ["Recorder"]

_REMEMBERED = 10_000
"""Ended run ids kept to recognise late events; some hundred kilobytes at most."""
_MAX_RUNS = 10_000
"""Runs of one interaction; one more, and it is abandoned as one that never ends."""


class Recorder:
    """Follows runs by their ids and reports each interaction once, when its root ends.

    An interaction is a root run in which something was retrieved, or one that the application
    opened by hand, and then the framework's roots within it are part of it. Every method is O(1)
    but `end` of a root, takes no lock and may be called from any thread; events of one run come
    in order, events of different runs in any. Late and repeated events are ignored.

    Args:
        on_end: Called with every ended interaction, in the thread of its last event.
        ttl: Seconds after which an open or interrupted interaction is given up.
        max_open: Interactions that may be open, and as many that may be interrupted; the oldest
            is given up for one more.
        max_chars: Characters of text that one may hold.
        max_text_chars: Characters of one text that are of use later.
        on_wait: Called when an interaction waits for a stream or for somebody: from then on
            `sweep` is needed, and at exit `close` is called.

    Attributes:
        locators: Of integrations: each tells the id of the framework's run around the caller.
    """

    def __init__(
        self,
        on_end: Callable[[Interaction], None],
        *,
        ttl: float,
        max_open: int,
        max_chars: int = 4_000_000,
        max_text_chars: int = 20_000,
        on_wait: Callable[[], object] = lambda: None,
    ) -> None:
        self._on_end = on_end
        self._on_wait = on_wait
        self._ttl_ns = int(ttl * 1e9)
        self._max_open = max_open
        self._room = Room(max_chars, max_text_chars)
        self._closes_at_exit = False
        self.locators: set[Callable[[], Hashable | None]] = set()
        self.reset()

    def reset(self) -> None:
        """Forgets everything open: what a forked child needs."""
        self._sweeping = threading.RLock()
        self._runs: dict[Hashable, Run] = {}
        self._open: dict[Hashable, Interaction] = {}
        self._waiting: dict[Hashable, Interaction] = {}
        self._ended: OrderedDict[Hashable, None] = OrderedDict()
        self._parked = Parked(self._report, self._ttl_ns, self._max_open)
        # What broke off is counted already.
        self._broken_off = Parked(lambda _: None, self._ttl_ns, self._max_open)

    def opened(self) -> tuple[int, int]:
        """How many interactions are open or interrupted, and the characters they hold."""
        held = list(self._open.values())
        chars = sum(interaction.chars for interaction in held) + self._parked.chars
        return len(held) + len(self._parked), chars

    def start(
        self,
        run_id: Hashable,
        parent_id: Hashable | None,
        kind: RunKind,
        name: str,
        metadata: Mapping[str, Any] | None = None,
        tags: Sequence[str] | None = None,
        *,
        apart: bool = False,
    ) -> Run | None:
        """A run begins. A parent that was never seen makes it a root.

        Args:
            run_id: Of the framework.
            parent_id: Of the enclosing run, or None where the framework names none.
            kind: What it does.
            name: The framework's name for it.
            metadata: Of a root.
            tags: Of a root.
            apart: Whether it is a root even inside one opened by hand, but for a framework's
                runs in that.

        Returns:
            The run, for the caller to put down what it knows, or None when it is ignored: it
            is known already, came late, or belongs to an evaluation of ours.
        """
        if run_id in self._runs or run_id in self._ended:
            return None
        parent = self._runs.get(parent_id) if parent_id is not None else None
        # Asked for in the order opposite to that in which an end, maybe at this moment, notes it.
        if parent_id in self._ended:
            # What it starts in its turn comes late too.
            self._ended[run_id] = None
            self._trim()
            return None
        if parent is None:
            if is_quiet():
                return None
            parent = self._around()
            if apart and parent is not None and parent.by_hand:
                parent = None
        if parent is None:
            return self._start_root(run_id, kind, name, metadata or {}, tags or ())
        return self._start_child(run_id, kind, name, parent)

    def _start_child(self, run_id: Hashable, kind: RunKind, name: str, parent: Run) -> Run | None:
        interaction = parent.interaction
        if len(interaction.runs) >= _MAX_RUNS:
            self._finish(interaction.root, Status.ABANDONED)
            return None
        run = Run(run_id, kind, name, parent, interaction, time.time_ns())
        interaction.runs.append(run)
        interaction.attempted |= kind is RunKind.RETRIEVER
        self._runs[run_id] = run
        if interaction.root.id not in self._open:
            # It ended in another thread meanwhile: nothing would take the run out again.
            self._ended[run_id] = None
            self._runs.pop(run_id, None)
            return None
        return run

    def _around(self) -> Run | None:
        """What encloses a run without a known parent.

        Frameworks lose parents: a fallback names none, nor does a call that is given callbacks of
        its own. What their context says counts, then an interaction opened by hand.
        """
        for locate in self.locators:
            if (run_id := locate()) is not None and (run := self.get(run_id)) is not None:
                return run
        return enclosing_run(self)

    def _start_root(
        self,
        run_id: Hashable,
        kind: RunKind,
        name: str,
        metadata: Mapping[str, Any],
        tags: Sequence[str],
    ) -> Run:
        self._abandon_old()
        if len(self._open) >= self._max_open:
            self._abandon_oldest()
        interaction = Interaction(otel_context.get_current(), {}, tuple(tags))
        interaction.metadata = self._room.metadata(interaction, metadata)
        now = time.time_ns()
        run = Run(run_id, kind, name, None, interaction, now)
        interaction.opened = now
        interaction.runs.append(run)
        self._runs[run_id] = run
        self._open[run_id] = interaction
        return run

    def get(self, run_id: Hashable) -> Run | None:
        """An open run, or None for one that was never seen or has ended."""
        run = self._runs.get(run_id)
        return run if run is not None and run.end is None else None

    def is_inside(self, parent_id: Hashable | None) -> bool:
        """Whether a run with this parent would be a part of something that is open."""
        if parent_id is not None and self.get(parent_id) is not None:
            return True
        return self._around() is not None

    @property
    def longest(self) -> int:
        """Characters that are kept of one text."""
        return self._room.longest

    def knows(self, run_id: Hashable) -> bool:
        """Whether a run, ended or not, belongs to an open interaction."""
        return run_id in self._runs

    def shared(self, run_id: Hashable, other: Run) -> bool:
        """Whether a known run belongs to the same interaction as another."""
        run = self._runs.get(run_id)
        return run is not None and run.interaction is other.interaction

    def follow(self, run: Run, over: Callable[[], Status | None]) -> None:
        """A run gave out a stream: its interaction stays open until that is over, too.

        Args:
            run: Any run of the interaction.
            over: How the stream's reading ended, or None while it may go on; asked when the root
                returns, when something was reported about the stream, and a few times a second.
        """
        run.interaction.streams.append(over)

    def documents(
        self, run: Run, contexts: Sequence[Context], origin: Origin = Origin.DOCUMENTS
    ) -> None:
        """A run gave out documents, or the application stated that it uses them."""
        interaction = run.interaction
        kept = self._room.contexts(interaction, contexts)
        if contexts and not kept:
            # Without room nobody knows which they were: that is no empty retrieval.
            interaction.attempted = True
            return
        interaction.lists.append(DocumentList(run, kept, origin))

    def choose(self, interaction: Interaction, contexts: Sequence[Context]) -> None:
        """The application chose the contexts; the last choice counts."""
        interaction.chosen = self._room.contexts(interaction, contexts)

    def text(self, run: Run, text: str | None) -> str | None:
        """As much of a text as may be kept; of the outermost run's own there is always room."""
        if text is None:
            return None
        return self._room.text(run.interaction, text, always=run.outermost)

    def texts(self, run: Run, texts: Sequence[str]) -> tuple[str, ...]:
        """As much of several texts as may be kept."""
        return tuple(self._room.text(run.interaction, text) for text in texts)

    def prompt(self, run: Run, texts: Sequence[str]) -> None:
        """A model was given texts."""
        run.prompt = self._room.prompt(run.interaction, texts)

    def resume(self, run: Run, conversation: str, fits: Fits) -> None:
        """An outermost run continues what stopped in a conversation.

        What waited for somebody becomes a part of its interaction. What broke off is counted
        already: of that it takes the question and what was found. Nothing happens where nothing
        fits, or more than one.
        """
        if (earlier := self._parked.take(conversation, fits)) is not None:
            run.interaction.resume(earlier)
        elif (earlier := self._broken_off.take(conversation, fits)) is not None:
            run.interaction.try_again(earlier)
        run.resuming = run.resuming and earlier is None

    def renew(self, conversation: str, fits: Fits) -> None:
        """A conversation goes on with a new question: what stopped in it is given up."""
        self._parked.pass_over(conversation, fits)
        self._broken_off.pass_over(conversation, fits)

    def end(self, run: Run) -> None:
        """A run ended well; the end of a root ends its interaction, but for open streams."""
        if run.parent is None:
            run.interaction.returned = True
            self.settle(run)
        elif run.end is None:
            run.end = time.time_ns()

    def settle(self, run: Run) -> None:
        """Ends the run's interaction when its root has returned and its streams are over."""
        interaction = run.interaction
        if interaction.root.end is not None:
            # Two threads may have seen the end of the stream at once.
            self._waiting.pop(interaction.root.id, None)
        elif interaction.returned:
            self._end_unless_streaming(interaction)

    def _end_unless_streaming(self, interaction: Interaction) -> None:
        ways = [over() for over in interaction.streams]
        if None in ways:
            self._waiting[interaction.root.id] = interaction
            self._on_wait()
        else:
            unwell = (way for way in ways if way is not None and way is not Status.OK)
            self._finish(interaction.root, next(unwell, Status.OK))

    def fail(self, run: Run, error: BaseException | type[BaseException]) -> None:
        """A run ended with an exception, or with one of a class."""
        kind = error if isinstance(error, type) else type(error)
        run.error_type = kind.__qualname__
        self._finish(run, status_of(kind))

    def sweep(self) -> None:
        """Ends what waited for streams that are over, gives up what is past the time limit.

        When it returns, what another thread found to be over has been reported, too.
        """
        with self._sweeping:
            for interaction in list(self._waiting.values()):
                self.settle(interaction.root)
            self._abandon_old()

    def _abandon_old(self) -> None:
        oldest_allowed = time.time_ns() - self._ttl_ns
        self._parked.sweep(oldest_allowed)
        self._broken_off.sweep(oldest_allowed)
        while self._open:
            oldest = self._oldest()
            if oldest is None or oldest.opened > oldest_allowed:
                return
            self._finish(oldest.root, Status.ABANDONED)

    def close(self) -> None:
        """Reports what waits for somebody as interrupted: in this process nobody will resume it."""
        self._parked.close()

    def __len__(self) -> int:
        """Interactions open at this moment; interrupted ones are not."""
        return len(self._open)

    def _finish(self, run: Run, status: Status) -> None:
        if run.end is not None:
            return
        run.end = time.time_ns()
        if run.parent is None:
            if run.id in self._waiting and status is not Status.ABANDONED:
                # Noticed later than it happened: the last that was reported tells when.
                run.end = run.interaction.last_told or run.end
            self._finish_interaction(run, status)

    def _finish_interaction(self, root: Run, status: Status) -> None:
        interaction = root.interaction
        # Whoever takes it out of the map reports it: a root's end and a sweep may race.
        if self._open.pop(root.id, None) is None:
            return
        self._waiting.pop(root.id, None)
        interaction.status = closed_early(interaction) if status is Status.OK else status
        for run in interaction.runs:
            self._ended[run.id] = None
            self._runs.pop(run.id, None)
            if run.end is None:
                run.end = root.end
                if run.mark is not None:
                    interaction.stops.add(run.mark)
            run.given = run.unseen = None
        self._trim()
        if interaction.interrupted and interaction.status is Status.OK:
            interaction.status = Status.INTERRUPTED
            self._park(interaction)
        else:
            self._report(interaction)
            if interaction.status is not Status.OK and root.keeps_state:
                self._broken_off.park(interaction.remainder())

    def _park(self, interaction: Interaction) -> None:
        self._on_wait()
        if not self._closes_at_exit:
            self._closes_at_exit = True
            # After whoever is called by `on_wait`: hooks run in reverse order. None can be
            # registered while the interpreter ends.
            with contextlib.suppress(RuntimeError):
                atexit.register(_close, weakref.ref(self))
        self._parked.park(interaction)

    def _trim(self) -> None:
        while len(self._ended) > _REMEMBERED:
            self._ended.popitem(last=False)

    def _report(self, interaction: Interaction) -> None:
        kind = interaction.root.kind
        interaction.drop_relayed()
        drop_unused(interaction)
        found = interaction.retrieves and kind is not RunKind.RETRIEVER
        if kind is RunKind.MANUAL or found:
            self._on_end(interaction)

    def _abandon_oldest(self) -> None:
        oldest = self._oldest()
        if oldest is not None:
            self._finish(oldest.root, Status.ABANDONED)

    def _oldest(self) -> Interaction | None:
        try:
            return next(iter(self._open.values()))
        except (StopIteration, RuntimeError):
            # Another thread changed the map meanwhile; the next call looks again.
            return None


def _close(reference: weakref.ref[Recorder]) -> None:
    recorder = reference()
    if recorder is not None:
        recorder.close()
