"""Who of several processes holds a claim, told by file locks: no clock, no heartbeat to miss."""

from __future__ import annotations

import os
import uuid
from contextlib import suppress
from pathlib import Path

try:
    import fcntl
except ImportError:  # pragma: no cover - a system without POSIX file locks
    fcntl = None  # type: ignore[assignment]

__all__ = ["Owner", "is_held", "is_supported", "owners_of"]


def is_supported() -> bool:
    """Whether this system has the locks."""
    return fcntl is not None


def owners_of(spool: Path) -> Path:
    """The folder with the names of all who share a spool."""
    return spool.with_name(f"{spool.name}-owners")


def is_held(path: Path, *, clear_up: bool = False) -> bool:
    """Whether the process whose name this file is lives.

    Args:
        path: The file.
        clear_up: Whether the file is removed where it does not.

    Raises:
        OSError: The file cannot be opened.
    """
    try:
        file = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return False
    try:
        # Shared, so that two who look at the same time do not take each other for it.
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    else:
        if clear_up:
            # Still locked: a process that has just made it must not lock it meanwhile.
            path.unlink(missing_ok=True)
        return False
    finally:
        os.close(file)


class Owner:
    """One process' name on its claims.

    The name is a file that is locked as long as the process lives. The kernel lets go of the
    lock with the process, however it ended, and not before: a process that is stopped or frozen
    keeps its claims, one that was killed loses them at once.

    Args:
        folder: Where the names of all who share a spool are; made when it is not there.

    Attributes:
        name: Unique among all that ever were.

    Raises:
        OSError: The folder cannot be written.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(mode=0o700, exist_ok=True)
        self._file = -1
        while self._file < 0:
            self.name = uuid.uuid4().hex
            self._file = _locked(folder / self.name)

    def is_alive(self, other: str) -> bool:
        """Whether the process of this name lives; its file is removed when it does not."""
        return is_held(self._folder / other, clear_up=True)

    def sweep(self) -> None:
        """Removes the files of those who ended without a trace in the spool."""
        for entry in os.scandir(self._folder):
            if entry.name != self.name:
                self.is_alive(entry.name)

    def is_intact(self) -> bool:
        """Whether others can still see the name: its file was not removed."""
        return _is_same(self._file, self._folder / self.name)

    def leave(self) -> None:
        """Gives the name up, with all claims under it."""
        with suppress(OSError):
            (self._folder / self.name).unlink(missing_ok=True)
        self.abandon()

    def abandon(self) -> None:
        """Closes the file alone: in a forked child, where the lock is the parent's."""
        file, self._file = self._file, -1
        if file >= 0:
            os.close(file)


def _locked(path: Path) -> int:
    """The descriptor of a new, locked file; -1 where another removed it before it was locked."""
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if _is_same(file, path):
            return file
    except BlockingIOError:
        # Somebody looks at this very moment whether it is locked.
        pass
    os.close(file)
    return -1


def _is_same(file: int, path: Path) -> bool:
    try:
        here, there = os.fstat(file), os.stat(path)
    except OSError:
        return False
    return (here.st_ino, here.st_dev) == (there.st_ino, there.st_dev)
