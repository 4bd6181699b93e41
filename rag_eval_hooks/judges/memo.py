"""Memo of valid replies, which serves equal prompts again."""

from __future__ import annotations

import asyncio
import hashlib
import json
import threading
from collections import Counter, OrderedDict
from collections.abc import Coroutine, Mapping
from dataclasses import replace
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any, Generic, TypeVar
from weakref import WeakKeyDictionary

from rag_eval_hooks.errors import (
    BudgetError,
    ConfigError,
    JudgeError,
    JudgeTimeout,
    JudgeUnavailable,
)
from rag_eval_hooks.incidents import Incidents
from rag_eval_hooks.judges.calls.context import UsageMeter, call_context, in_call_context
from rag_eval_hooks.judges.chat import Chat, Completion
from rag_eval_hooks.judges.disk import Disk
from rag_eval_hooks.prompts import Prompt, ReplyError
from rag_eval_hooks.threads import at_fork
from rag_eval_hooks.usage import Usage

__all__ = ["Memo", "MemoChat"]


class Memo:
    """Replies by model and prompt, in memory and, if a folder is given, on disk.

    One memo may serve several judges, and one folder several processes. Replies hold claims of
    the samples: the folder needs the same protection as the samples.

    Args:
        path: Folder for replies that outlive the process; made when it is not there.
        size: Replies kept in memory; the one unused for longest leaves first.
        disk_size: Replies kept on disk; the ones stored first leave first.

    Raises:
        ConfigError: A size is below 1, or the path is a file.
    """

    def __init__(
        self,
        path: str | PathLike[str] | None = None,
        *,
        size: int = 2048,
        disk_size: int = 200_000,
    ) -> None:
        for name, value in (("size", size), ("disk_size", disk_size)):
            if value < 1:
                raise ConfigError(name, value, "a whole number, 1 or more")
        self._size = size
        self._incidents = Incidents()
        self._disk = None if path is None else Disk(Path(path), disk_size, self._incidents)
        self._texts: OrderedDict[bytes, str] = OrderedDict()
        self._counts: Counter[str] = Counter()
        self._renew_lock()
        at_fork(in_child=self._renew_lock)

    def _renew_lock(self) -> None:
        # A forked child may have inherited it locked.
        self._lock = threading.Lock()

    def recall(self, key: bytes) -> str | None:
        """Return the text in memory, or None."""
        with self._lock:
            text = self._texts.get(key)
            if text is not None:
                self._texts.move_to_end(key)
                self._counts["memory"] += 1
            return text

    async def load(self, key: bytes) -> str | None:
        """Return the text on disk, or None; a disk that fails has none."""
        text = None if self._disk is None else await self._disk.get(key)
        with self._lock:
            self._counts["asked" if text is None else "disk"] += 1
        if text is not None:
            self._remember(key, text)
        return text

    def keep(self, key: bytes, text: str) -> None:
        """Keep a text in memory, and soon on disk."""
        self._remember(key, text)
        if self._disk is not None:
            self._disk.put(key, text)

    def stats(self) -> Mapping[str, int]:
        """Count replies served from `memory` and `disk`, prompts `asked`, and failures by kind."""
        with self._lock:
            return {**self._counts, **self._incidents.counts()}

    async def aclose(self) -> None:
        """Write pending replies and close the file; it may be used again."""
        if self._disk is not None:
            await self._disk.aclose()

    def _remember(self, key: bytes, text: str) -> None:
        with self._lock:
            self._texts[key] = text
            self._texts.move_to_end(key)
            while len(self._texts) > self._size:
                self._texts.popitem(last=False)


class MemoChat:
    """Chat that asks equal prompts once.

    Equal prompts at the same time share one call. Only a reply that its reader
    accepts (`Completion.accept`) is kept. A reply from the memo took nothing; of a reply that
    several share, one bears the cost.

    Args:
        chat: The model.
        memo: Keeps the replies.
        scope: Text that tells this model from others of the same name, such as its endpoint.
    """

    def __init__(self, chat: Chat, memo: Memo, *, scope: str = "") -> None:
        self._chat = chat
        self._memo = memo
        self._scope = scope
        self._flights: WeakKeyDictionary[
            asyncio.AbstractEventLoop, dict[bytes, Flight[Completion]]
        ] = WeakKeyDictionary()

    @property
    def name(self) -> str:
        """Kind and model."""
        return self._chat.name

    async def complete(self, prompt: Prompt) -> Completion:
        """Return the kept reply, or the model's."""
        key = self._key(prompt)
        if (text := self._memo.recall(key)) is not None:
            return Completion(text, Usage())
        flights = self._flights.setdefault(asyncio.get_running_loop(), {})
        flight = flights.get(key)
        if flight is None:
            spent = UsageMeter()
            flight = flights[key] = Flight(self._load_or_ask(key, prompt, spent), spent)
        try:
            return await _shared(flight)
        except asyncio.CancelledError:
            if flight.ended and flight.claim():
                _charge(flight.spent.usage)
            raise
        finally:
            # The reader accepts the reply before another task runs: no equal prompt comes between.
            if flight.ended and flights.get(key) is flight:
                del flights[key]

    async def aclose(self) -> None:
        """Close the model's connections and the memo's file."""
        await self._chat.aclose()
        await self._memo.aclose()

    async def _load_or_ask(self, key: bytes, prompt: Prompt, spent: UsageMeter) -> Completion:
        if (text := await self._memo.load(key)) is not None:
            return Completion(text, Usage())
        with in_call_context(meter=spent):
            completion = await self._chat.complete(prompt)
        return Completion(
            completion.text, completion.usage, partial(self._memo.keep, key, completion.text)
        )

    def _key(self, prompt: Prompt) -> bytes:
        asked = (prompt.version, prompt.name, prompt.system, prompt.asked, prompt.example)
        whole = json.dumps([self.name, self._scope, *asked])
        return hashlib.blake2b(whole.encode("ascii"), digest_size=20).digest()


def _charge(usage: Usage) -> None:
    if (meter := call_context().meter) is not None:
        meter.usage += usage


async def _shared(flight: Flight[Completion]) -> Completion:
    """Return the shared call's reply, or raise its error; one of the waiters bears the usage."""
    try:
        completion = await flight.result()
    except (JudgeError, ReplyError) as error:
        if flight.claim():
            raise
        raise _free(error) from None
    return completion if flight.claim() else replace(completion, usage=Usage())


def _free(error: JudgeError | ReplyError) -> JudgeError | ReplyError:
    """Copy an error for a further waiter, without usage."""
    kinds = (ReplyError, JudgeTimeout, BudgetError, JudgeUnavailable, JudgeError)
    kind = next(kind for kind in kinds if isinstance(error, kind))
    free = kind(str(error))
    free.usage = Usage()
    return free


T = TypeVar("T")


class Flight(Generic[T]):
    """Call in a task of its own, which is cancelled when its last waiter is.

    Args:
        call: Started at once, in the running loop.
        spent: Sum of what the call takes.

    Attributes:
        spent: Sum of what the call takes.
        ended: True if no further waiter can join.
    """

    def __init__(self, call: Coroutine[Any, Any, T], spent: UsageMeter) -> None:
        self.spent = spent
        self._task = asyncio.create_task(call)
        self._waiting = 0
        self._claimed = False
        self.ended = False

    async def result(self) -> T:
        """Wait for the call; a waiter that is cancelled does not cancel it for the others."""
        self._waiting += 1
        try:
            return await asyncio.shield(self._task)
        finally:
            self._waiting -= 1
            if not self._waiting:
                self._task.cancel()
            self.ended = self._task.done() or not self._waiting

    def claim(self) -> bool:
        """Return True to the first caller only, which bears the usage."""
        first, self._claimed = not self._claimed, True
        return first
