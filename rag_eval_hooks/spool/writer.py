"""Files of one spool with all that can go wrong with them: storing, changing, handing back."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from rag_eval_hooks.incidents import Incidents
from rag_eval_hooks.redaction import Redactor
from rag_eval_hooks.spool.codec import sample_to_text
from rag_eval_hooks.spool.file import EVALUATE, MOST_ROWS, SpoolFile
from rag_eval_hooks.spool.folder import make_folder
from rag_eval_hooks.spool.recovered import DISCARD, KEEP, Entry, Receiver, Write, recover
from rag_eval_hooks.spool.takeover import TakeOver
from rag_eval_hooks.sqlite_file import FILE_ERRORS, is_busy, is_damage

__all__ = ["SpoolWriter"]

_BUILD_S: Final = 0.02
"""Seconds for which samples are built before those that are built are written."""
_CHUNK: Final = 16
"""Samples handed back at a time; between them, newly accepted ones are written."""
_PAUSE_S: Final = 2.0
"""Seconds without the disk after it failed."""
_BUSY_PAUSE_S: Final = 0.1
"""Seconds without the file after another program held it."""
_MOST_LATE: Final = 5000
"""Operations that wait in memory for a disk that fails; the oldest are given up."""


class SpoolWriter:
    """This process's own file, and those that it took over. Used by the spool's thread alone.

    A sample that cannot be stored now is stored later, unless it is finished before.

    Args:
        path: Path of the spool in the settings.
        max_bytes: Size limit of the own file.
        incidents: Counts failures.
        redactor: Redacts samples that were stored under other settings.
        receiver: Takes the samples that wait on disk.

    Attributes:
        undurable: Accepted samples that were not stored.
    """

    def __init__(
        self,
        path: Path,
        *,
        max_bytes: int,
        incidents: Incidents,
        redactor: Redactor,
        receiver: Receiver,
    ) -> None:
        self.undurable = 0
        self._path = path
        self._max_bytes = max_bytes
        self._incidents = incidents
        self._redactor = redactor
        self._receiver = receiver
        self._own: SpoolFile | None = None
        self._own_bytes = 0
        self._stored: set[Entry] = set()
        self._taken_over = TakeOver(path, incidents, receiver)
        self._down_until = 0.0
        self._late: list[Write] = []

    @property
    def has_samples(self) -> bool:
        """Whether samples wait for the disk."""
        return any(not one.statement for one in self._late)

    @property
    def retry_in(self) -> float:
        """Seconds until what waits for the disk is tried again; infinite if nothing waits."""
        if not self._late:
            return float("inf")
        return max(_BUSY_PAUSE_S, self._down_until - time.monotonic())

    def hurry(self) -> None:
        """Try the disk again with the next operation, however lately it failed."""
        self._down_until = 0.0

    def write(self, writes: Sequence[Write]) -> None:
        """Store samples and change rows, with what waited for the disk before."""
        pending, self._late = [*self._late, *writes], []
        try:
            self._store([one for one in pending if not one.statement])
            self._change([one for one in pending if one.statement])
        finally:
            # An operation that failed is done as well: nobody may wait for it for ever.
            for one in writes:
                one.finish(False)
            self._give_up_oldest()

    def look(self) -> bool:
        """Take over files and hand back what waits; return whether there may be more."""
        if time.monotonic() < self._down_until:
            return False
        self._check_files()
        self._taken_over.look(() if self._own is None else (self._own.path.name,))
        files = self._files()
        has_more = [self._hand_back(file, key) for file in files for key in list(file.waiting)]
        for file in self._taken_over.finished():
            self._taken_over.remove(file, self._opened())
        if self._own is not None:
            self._own_bytes = self._own.size()
        return any(has_more)

    def measure(self) -> tuple[int, int]:
        """Return the rows and the bytes of all files."""
        files = self._files()
        return sum(file.count_rows() for file in files), sum(file.size() for file in files)

    def close(self) -> None:
        """Leave all files to other processes."""
        for file in self._files():
            try:
                file.close()
            except FILE_ERRORS as error:
                self._incidents.report("spool", error)

    def _store(self, writes: Sequence[Write]) -> None:
        """Store samples, without waiting for all of them to be built, as by slow redaction."""
        batch: list[tuple[Write, str]] = []
        size, until = 0, time.monotonic() + _BUILD_S
        for write in writes:
            text = self._text(write.entry)
            if text is None or not self._fits(size + len(text)):
                self.undurable += 1
                continue
            batch.append((write, text))
            size += len(text)
            if len(batch) == MOST_ROWS or time.monotonic() >= until:
                self._insert(batch, size)
                batch, size, until = [], 0, time.monotonic() + _BUILD_S
        if batch:
            self._insert(batch, size)

    def _text(self, entry: Entry) -> str | None:
        """Return a sample as text; None if it is evaluated already, or cannot be stored."""
        if entry.is_settled or entry.build is None:
            return None
        try:
            return sample_to_text(entry.build(), self._redactor.mark)
        except Exception as error:  # noqa: BLE001 - the host's edge: it reads the host's objects
            self._incidents.report("spool", error)
            return None

    def _insert(self, batch: Sequence[tuple[Write, str]], size: int) -> None:
        entries = [write.entry for write, _ in batch]
        texts = [text for _, text in batch]
        try:
            file = self._opened()
            numbers = file.insert(
                [
                    (text, entry.probability, entry.reason, entry.accepted_at)
                    for entry, text in zip(entries, texts, strict=True)
                ]
            )
        except FILE_ERRORS as error:
            self._failed(self._own, error)
            self._late += [write for write, _ in batch]
            return
        self._own_bytes += size
        for entry, seq in zip(entries, numbers, strict=True):
            entry.seq, entry.file = seq, file
            self._stored.add(entry)

    def _fits(self, size: int) -> bool:
        """Return whether this process's own file may grow by so many bytes."""
        if self._own_bytes + size <= self._max_bytes:
            return True
        self._incidents.count("spool: Full")
        return False

    def _has_room(self, write: Write) -> bool:
        """Return whether there is room for a change, which only an evaluation needs."""
        if write.statement != KEEP or write.entry.file is not self._own:
            return True
        size = len(write.values[0])
        fits = self._fits(size)
        self._own_bytes += size if fits else 0
        return fits

    def _change(self, writes: Sequence[Write]) -> None:
        by_file: dict[SpoolFile, list[Write]] = {}
        for write in writes:
            # A sample that is not on disk has no row to change.
            file = write.entry.file
            if file is not None and file.is_writable and self._has_room(write):
                by_file.setdefault(file, []).append(write)
        for file, group in by_file.items():
            try:
                if time.monotonic() < self._down_until:
                    raise _DownError
                file.apply((one.statement, (*one.values, one.entry.seq)) for one in group)
            except FILE_ERRORS as error:
                self._failed(file, error)
                self._late += group if file.is_writable else []
            else:
                self._changed(group)

    def _changed(self, writes: Sequence[Write]) -> None:
        for write in writes:
            write.finish(True)
            if write.entry.is_settled:
                # A finished sample must not fill the memory.
                write.entry.build = None
                self._stored.discard(write.entry)

    def _give_up_oldest(self) -> None:
        given_up, self._late = self._late[:-_MOST_LATE], self._late[-_MOST_LATE:]
        self.undurable += sum(not one.statement for one in given_up)

    def _opened(self) -> SpoolFile:
        """Return this process's own file; it is created for the first sample.

        Raises:
            OSError: It cannot be used, or could not be used a moment ago.
            sqlite3.Error: It cannot be used.
        """
        if time.monotonic() < self._down_until:
            raise _DownError
        if self._own is None:
            self._own = SpoolFile.create(make_folder(self._path))
            self._own_bytes = 0
        return self._own

    def _failed(self, file: SpoolFile | None, error: Exception) -> None:
        if isinstance(error, _DownError):
            return
        self._incidents.report("spool", error)
        if file is not None and is_damage(error):
            file.is_damaged = True
            if file is self._own:
                file.put_aside()
                self._forget(file)
            return
        self._down_until = time.monotonic() + (_BUSY_PAUSE_S if is_busy(error) else _PAUSE_S)

    def _forget(self, file: SpoolFile) -> None:
        """Go on without a lost file: its samples that are still in memory are stored anew."""
        self._taken_over.forget(file)
        if file is self._own:
            self._own = None
            stored, self._stored = self._stored, set()
            for entry in stored:
                if not entry.is_settled:
                    entry.file = None
                    self._late.append(Write(entry))

    def _files(self) -> list[SpoolFile]:
        return [*([] if self._own is None else [self._own]), *self._taken_over.files]

    def _check_files(self) -> None:
        for file in self._files():
            if not file.is_intact():
                self._incidents.report("spool", FileNotFoundError())
                file.is_lost = True
                self._forget(file)

    def _hand_back(self, file: SpoolFile, key: str) -> bool:
        """Hand back a chunk of rows, and return whether there may be room for more."""
        sink = None if key == EVALUATE else key
        limit = min(_CHUNK, self._receiver.capacity(sink))
        try:
            rows = file.read(key, limit) if limit > 0 else []
        except FILE_ERRORS as error:
            self._failed(file, error)
            return False
        for number, row in enumerate(rows):
            recovered = recover(row, file, self._redactor, self._incidents)
            if recovered.refusal is not None and recovered.counted:
                self._incidents.count("spool, unreadable: Lost")
                self._late.append(Write(recovered.entry, DISCARD, ("",)))
            elif not self._receiver.take(recovered, sink):
                file.waiting[key].extendleft(one.seq for one in reversed(rows[number:]))
                return False
        return len(rows) == _CHUNK


class _DownError(OSError):
    """The disk failed a moment ago."""
