"""Whole lines in a file that several processes append to, each of which may be killed."""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

try:
    import fcntl
except ImportError:  # pragma: no cover - a system without POSIX file locks
    fcntl = None  # type: ignore[assignment]

__all__ = ["append", "find"]


def append(file: BinaryIO, line: bytes) -> None:
    """Appends a line, after the end of one that was left unfinished.

    Args:
        file: Open to append and to read, without a buffer.
        line: With its line break.

    Raises:
        OSError: It cannot be written; a part of it may be.
    """
    with _alone(file):
        size = file.seek(0, os.SEEK_END)
        if size:
            file.seek(size - 1)
            if file.read(1) != b"\n":
                line = b"\n" + line
        left = memoryview(line)
        while left:
            left = left[file.write(left) :]


def find(path: Path, text: bytes, since: int) -> bool:
    """Whether a text is in a file, after so many bytes; in all of a file that has fewer."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            if not size:
                return False
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
                return content.find(text, since if since <= size else 0) >= 0
    except FileNotFoundError:
        return False


@contextmanager
def _alone(file: BinaryIO) -> Iterator[None]:
    """Keeps other processes from writing meanwhile; the lock ends with the process."""
    if fcntl is None:
        yield
        return
    fcntl.flock(file, fcntl.LOCK_EX)
    try:
        yield
    finally:
        fcntl.flock(file, fcntl.LOCK_UN)
