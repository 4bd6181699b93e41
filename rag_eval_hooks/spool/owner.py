"""File lock that shows whether the process that owns a spool file is alive."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Self

from rag_eval_hooks.threads import at_fork

try:
    import fcntl
except ImportError:  # pragma: no cover - a system without POSIX file locks
    fcntl = None  # type: ignore[assignment]

__all__ = ["Owner", "is_held", "is_supported", "lock_of"]


def is_supported() -> bool:
    """Return whether this system has the locks."""
    return fcntl is not None


def is_held(path: Path) -> bool:
    """Return whether a living process holds the lock.

    Raises:
        OSError: The lock file cannot be opened.
    """
    try:
        file = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return False
    try:
        # Shared, so that two processes that look at the same time do not see each other.
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(file)
    return False


def lock_of(path: Path) -> Path:
    """Return the lock file of a spool file."""
    return path.with_suffix(".lock")


class Owner:
    """Exclusive lock of one spool file, held until `release` or the end of the process.

    The kernel releases the lock with the process, however that ended, and not before: a process
    that is stopped or frozen keeps its file, a killed one loses it at once. The lock belongs to
    the open file description, so closing another descriptor of the same file does not release
    it; a forked child, which inherits the descriptor, closes it at once.

    Args:
        path: The lock file.
        file: Its open and locked descriptor.
    """

    def __init__(self, path: Path, file: int) -> None:
        self._path = path
        self._file = file
        at_fork(in_child=self._close)

    @classmethod
    def take(cls, path: Path) -> Self | None:
        """Take the lock; None if another process, or another spool of this process, holds it.

        Raises:
            OSError: The lock file can be neither opened nor created.
        """
        file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(file)
            return None
        if not _is_open_at(file, path):
            # The previous owner removed it between the two calls.
            os.close(file)
            return None
        return cls(path, file)

    def is_intact(self) -> bool:
        """Return whether other processes can still see the lock: its file was not removed."""
        return _is_open_at(self._file, self._path)

    def release(self) -> None:
        """Leave the file to other processes."""
        self._close()

    def remove(self) -> None:
        """Release the lock, whose spool file is gone."""
        self._path.unlink(missing_ok=True)
        self._close()

    def _close(self) -> None:
        file, self._file = self._file, -1
        if file >= 0:
            os.close(file)


def _is_open_at(file: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file), os.stat(path))
    except OSError:
        return False
