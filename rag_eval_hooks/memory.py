"""Keeps recent requests, so that later feedback finds its request."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict

from rag_eval_hooks.config import limits
from rag_eval_hooks.request import Request
from rag_eval_hooks.sample import Sample


class Memory:
    """The recent requests, and their texts while there is room. Thread-safe.

    If the texts together exceed `FEEDBACK_CHARS` characters, the oldest requests lose their texts.
    """

    def __init__(self) -> None:
        self._size, self._seconds = limits.FEEDBACK_SAMPLES, limits.FEEDBACK_SECONDS
        self._most_chars = limits.FEEDBACK_CHARS
        self._lock = threading.Lock()
        # Requests and their deadlines, oldest first.
        self._requests: OrderedDict[Request, float] = OrderedDict()
        # Requests with texts and their number of characters, oldest first.
        self._texts: OrderedDict[Request, int] = OrderedDict()
        self._by_id: dict[str, Request] = {}
        self.chars = 0

    def __len__(self) -> int:
        return len(self._requests)

    def add(self, request: Request, *, with_text: bool = True) -> None:
        if self._size and request.ids:
            with self._lock:
                self._requests[request] = time.monotonic() + self._seconds
                self._by_id |= dict.fromkeys(request.ids, request)
                self._keep_text(request, request.size if with_text else None)
                self._trim()

    def find(self, name: str) -> Request | None:
        with self._lock:
            self._trim()
            return self._by_id.get(name)

    def keeps_text(self, request: Request) -> bool:
        return request in self._texts

    def update(self, request: Request, sample: Sample) -> None:
        with self._lock:
            if request in self._requests:
                self._by_id |= dict.fromkeys(request.ids, request)
                request.keep(sample)
                self._keep_text(request, sample.chars)
                self._trim()

    def strip(self, request: Request) -> None:
        with self._lock:
            self._keep_text(request, None)

    def _keep_text(self, request: Request, size: int | None) -> None:
        self.chars -= self._texts.pop(request, 0)
        if size is not None and size <= self._most_chars:
            self._texts[request] = size
            self.chars += size
        elif request.ending is not None and not request.ending.is_left:
            # An unfinished evaluation and the spool still need the text.
            request.release()

    def _trim(self) -> None:
        now = time.monotonic()
        while self._requests:
            oldest, deadline = next(iter(self._requests.items()))
            if len(self._requests) <= self._size and deadline > now:
                break
            del self._requests[oldest]
            self.chars -= self._texts.pop(oldest, 0)
            for name in oldest.ids:
                if self._by_id.get(name) is oldest:
                    del self._by_id[name]
        while self.chars > self._most_chars:
            self._keep_text(next(iter(self._texts)), None)
