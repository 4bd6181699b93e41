"""Ports for servers that cannot tell which port they took, or that keep theirs over a restart."""

from __future__ import annotations

import contextlib
import random
import socket
from typing import Final

_BELOW_EPHEMERAL: Final = range(10_000, 32_768)
"""The system gives these to nobody who asks for any port, be it a server or an outgoing connection.

A port from above may be taken between its choice and its use, or while its server restarts.
"""


def free_port() -> int:
    """Return a port on loopback that nobody uses, and that the system will not hand out."""
    chance = random.SystemRandom()
    for _ in range(100):
        port = chance.choice(_BELOW_EPHEMERAL)
        with contextlib.suppress(OSError), socket.socket() as tried:
            tried.bind(("127.0.0.1", port))
            return port
    raise OSError("none of 100 ports is free")
