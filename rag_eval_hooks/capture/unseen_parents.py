"""Roots that name a parent of which no beginning was reported.

Where a handler is bound to a part of an application, what encloses the part is never reported.
Where the beginning of a request was lost, its end is: then its parts are no requests.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable, Hashable
from weakref import WeakValueDictionary

from opentelemetry import context as otel_context

from rag_eval_hooks.capture.interaction import Interaction, Run, UnseenParent

__all__ = ["UnseenParents"]

_ALL_PARTS = ("contexts", "prompt", "question", "answer")
"""Parts of a sample that may be wrong where its root is a part of something."""
_MOST = 1000
"""Roots that may wait for the end of what encloses them."""


class UnseenParents:
    """Holds ended roots back until it is known whether their parent reports its end.

    Args:
        give_out: Called with every root that is a request, or may be one.
        on_lost: Called with an unreadable interaction for each request that lost its beginning.
        on_wait: Called when a root waits for `decide`.
    """

    def __init__(
        self,
        give_out: Callable[[Interaction], None],
        on_lost: Callable[[Interaction], None],
        on_wait: Callable[[], object],
    ) -> None:
        self._give_out = give_out
        self._on_lost = on_lost
        self._on_wait = on_wait
        self._parents: WeakValueDictionary[Hashable, UnseenParent] = WeakValueDictionary()
        self._waiting: deque[Interaction] = deque()

    def name(self, root: Run, parent_id: Hashable, held: Callable[[], object]) -> None:
        """Note the parent that a root names.

        Args:
            root: The root.
            parent_id: The key of its parent.
            held: Returns None when nothing could report the end of the parent any more.
        """
        parent = self._parents.setdefault(parent_id, UnseenParent(held))
        root.interaction.unseen = parent

    def end(self, run_id: Hashable) -> bool:
        """Note the end of a run that was never seen; return whether it is a parent of roots."""
        parent = self._parents.get(run_id)
        if parent is None or parent.has_ended:
            return False
        parent.has_ended = True
        self._on_lost(Interaction(otel_context.get_current(), is_readable=False))
        return True

    def add(self, interaction: Interaction) -> None:
        """Give an ended root out, or hold it back. O(1)."""
        if interaction.unseen is None:
            self._give_out(interaction)
            return
        self._waiting.append(interaction)
        self._on_wait()

    def decide(self, before: float) -> None:
        """Give out what waits for no end any more.

        Args:
            before: Nanoseconds since the epoch. Roots that ended before wait no longer, and are
                marked as maybe parts of something.
        """
        for _ in range(len(self._waiting)):
            with contextlib.suppress(IndexError):
                self._decide(self._waiting.popleft(), before)

    def _decide(self, interaction: Interaction, before: float) -> None:
        parent = interaction.unseen
        # Asked first, as it may end at this moment.
        is_gone = parent is None or parent.held() is None
        if parent is not None and parent.has_ended:
            return
        is_due = (interaction.root.end or 0) <= before or len(self._waiting) >= _MOST
        if not is_gone and not is_due:
            self._waiting.append(interaction)
            return
        if not is_gone:
            interaction.left_out.update(_ALL_PARTS)
        self._give_out(interaction)
