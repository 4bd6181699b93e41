"""Files of processes that have ended: one process at a time takes over a whole file."""

from __future__ import annotations

import time
from collections.abc import Collection
from pathlib import Path
from typing import Final

from rag_eval_hooks.config import limits
from rag_eval_hooks.incidents import Incidents
from rag_eval_hooks.spool.file import EVALUATE, SpoolFile, put_aside
from rag_eval_hooks.spool.folder import (
    identity_of,
    make_folder,
    move_old_file,
    spool_files,
    spool_folder,
    upgrade,
)
from rag_eval_hooks.spool.inspect import carried_files
from rag_eval_hooks.spool.owner import Owner, lock_of
from rag_eval_hooks.spool.recovered import Receiver
from rag_eval_hooks.spool.schema import APPLICATION, VERSION
from rag_eval_hooks.sqlite_file import FILE_ERRORS, is_damage

__all__ = ["TakeOver"]

_MOST_BUSY: Final = 8
"""Files held at a time of which rows can be handed back; the next follow as these are finished."""
_MOST_FILES: Final = 64
"""Files held at a time, with those whose other rows wait for sinks of other settings."""


class TakeOver:
    """Files that this process took over, each until its rows are finished.

    Not thread-safe: used by the spool's thread.

    Args:
        path: Path of the spool in the settings.
        incidents: Counts failures.
        receiver: Knows the sinks of the settings.

    Attributes:
        files: The files held now.
    """

    def __init__(self, path: Path, incidents: Incidents, receiver: Receiver) -> None:
        self.files: list[SpoolFile] = []
        self._path = path
        self._incidents = incidents
        self._receiver = receiver
        self._skipped: set[str] = set()

    def look(self, own: Collection[str]) -> None:
        """Take over files whose owners have ended.

        Args:
            own: Name of this process's own file, if there is one.
        """
        self._move_old_file()
        held = {file.path.name for file in self.files}
        for path in spool_files(spool_folder(self._path)):
            busy = sum(self._is_wanted(file) for file in self.files)
            if busy >= _MOST_BUSY or len(self.files) >= _MOST_FILES:
                return
            if path.name not in held | self._skipped and path.name not in own:
                try:
                    self._take(path)
                except FILE_ERRORS as error:
                    self._incidents.report("spool", error)

    def finished(self) -> list[SpoolFile]:
        """Return the files of which nothing waits: without a row, or only damaged ones."""
        idle = [file for file in self.files if not any(file.waiting.values())]
        return [file for file in idle if file.is_damaged or file.is_empty()]

    def remove(self, file: SpoolFile, own: SpoolFile) -> None:
        """Remove a finished file, after its counts were added to this process's own file.

        Another process may have added them already, and ended before it could remove the file.
        """
        if file.is_damaged:
            self.files.remove(file)
            file.put_aside()
            return
        if file.path.name not in carried_files(self._path, file.path.name):
            own.carry(file)
        self.files.remove(file)
        file.is_lost = True
        file.remove()
        own.forget_carried()

    def forget(self, file: SpoolFile) -> None:
        """Go on without a file that is lost."""
        if file in self.files:
            self.files.remove(file)

    def _take(self, path: Path) -> None:
        owner = Owner.take(lock_of(path))
        if owner is None:
            return
        try:
            if not path.exists():
                # Its last owner has just removed it.
                owner.remove()
                return
            if not self._is_readable(path):
                self._skipped.add(path.name)
                owner.release()
                return
            file = SpoolFile(path, owner)
            file.find_waiting()
            if file.waiting and not self._is_wanted(file):
                self._leave(file)
                return
        except FILE_ERRORS as error:
            if is_damage(error):
                put_aside(path, owner)
            owner.release()
            raise
        self.files.append(file)

    def _is_wanted(self, file: SpoolFile) -> bool:
        """Return whether the evaluator, or a sink of the settings, waits for rows of a file."""
        return any(rows and self._is_known(key) for key, rows in file.waiting.items())

    def _is_known(self, key: str) -> bool:
        return key == EVALUATE or self._receiver.knows(key)

    def _leave(self, file: SpoolFile) -> None:
        """Leave a file to a process with its sinks, without the results that waited too long."""
        oldest = time.time() - limits.SINK_KEEP_SECONDS
        lost = file.expire([key for key in file.waiting if not self._is_known(key)], oldest)
        self._incidents.count("spool, sink of other settings: Lost", lost)
        if file.is_empty():
            file.waiting.clear()
            self.files.append(file)
        else:
            self._skipped.add(file.path.name)
            file.close()

    def _is_readable(self, path: Path) -> bool:
        """Return whether a file has the present schema, or could be brought to it."""
        identity = identity_of(path)
        if identity[0] == APPLICATION and 0 < identity[1] < VERSION:
            upgrade(path)
            return True
        # One that is empty was created by a process that ended at once.
        return identity in ((APPLICATION, VERSION), (0, 0))

    def _move_old_file(self) -> None:
        if self._path.is_file():
            try:
                move_old_file(self._path, make_folder(self._path))
            except FILE_ERRORS as error:
                self._incidents.report("spool", error)
                if is_damage(error):
                    self._path.rename(self._path.with_name(f"{self._path.name}.damaged"))
