"""Frames over a socket pair, the same on both sides."""

from __future__ import annotations

import asyncio
import socket
import struct
from dataclasses import dataclass
from enum import IntEnum

__all__ = ["Frame", "Kind", "Link"]

_HEAD = struct.Struct("!BQQ")
_CHUNK = 1 << 16


class Kind(IntEnum):
    """What a frame says."""

    START = 1
    """To the child: what to evaluate with."""
    READY = 2
    """From the child: it takes samples."""
    REFUSED = 3
    """From the child: it cannot be made, and why, as text."""
    SAMPLE = 4
    """To the child: a pickled sample."""
    OUTCOMES = 5
    """From the child: the pickled outcomes of the sample of that number."""
    RAISED = 6
    """From the child: that sample's evaluation raised; the name of the exception's type."""
    INCIDENT = 7
    """From the child: something was counted; its kind as text."""
    LOG = 8
    """From the child: a line of our own logger; the number is its level."""
    CALL = 9
    """From the child: a call to judge or embedder has ended, as JSON."""
    GATE = 10
    """From the child: how calls stand, as JSON."""


@dataclass(frozen=True, slots=True)
class Frame:
    """One message.

    Attributes:
        kind: What it says.
        number: The sample that it is about, or another number.
        body: All else.
    """

    kind: Kind
    number: int = 0
    body: bytes = b""


class Link:
    """Sends and receives frames, in one event loop.

    Args:
        sock: A connected socket; becomes non-blocking.
        most: Bytes of a frame that is received; the sender of a longer one is taken to be gone.
    """

    def __init__(self, sock: socket.socket, most: int | None = None) -> None:
        sock.setblocking(False)
        self._sock = sock
        self._most = most
        self._turn = asyncio.Lock()

    async def send(self, frame: Frame) -> None:
        """Sends a frame, whole, in turn.

        Raises:
            OSError: The other side is gone.
        """
        head = _HEAD.pack(frame.kind, frame.number, len(frame.body))
        async with self._turn:
            await asyncio.get_running_loop().sock_sendall(self._sock, head + frame.body)

    async def receive(self) -> Frame | None:
        """The next frame, or None when the other side is gone."""
        head = await self._read(_HEAD.size)
        if head is None:
            return None
        kind, number, size = _HEAD.unpack(head)
        if self._most is not None and size > self._most:
            return None
        body = await self._read(size)
        return None if body is None else Frame(Kind(kind), number, body)

    async def _read(self, size: int) -> bytes | None:
        loop, data = asyncio.get_running_loop(), bytearray()
        while len(data) < size:
            try:
                part = await loop.sock_recv(self._sock, min(size - len(data), _CHUNK))
            except OSError:
                return None
            if not part:
                return None
            data += part
        return bytes(data)
