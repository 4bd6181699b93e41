"""How the child process is started: by the same interpreter, without the application's main."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from rag_eval_hooks.config.env_and_file import evaluator_environment

__all__ = ["Launch", "obstacle"]

# `multiprocessing` would import the application's main module again: a script without a guard
# would run a second time. A failure to import is told in the form that `link` reads, with no
# module that might be missing too.
_CODE = """
import sys
parent, sys.path[:], sys.argv[:] = int(sys.argv[1]), sys.argv[2:], ["rag-eval-hooks-evaluator"]
try:
    from rag_eval_hooks.evaluator_process import main
except Exception as error:
    import os
    text = f"{type(error).__name__}: {error}".encode()[:300]
    os.write(0, b"\\x03" + bytes(8) + len(text).to_bytes(8, "big") + text)
    os._exit(1)
main(parent)
"""


def obstacle() -> str | None:
    """Why no evaluator process can be started here, or None."""
    if os.name != "posix":
        return "an evaluator process needs a POSIX system"
    if getattr(sys, "frozen", False):
        return "the application is frozen: it has no interpreter to start"
    if _interpreter() is None:
        return "the application runs in an embedded interpreter: there is none to start"
    return None


def _interpreter() -> str | None:
    """The running interpreter; where Python is embedded, `sys.executable` is the host program."""
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    candidates = (sys.executable or "", f"{sys.exec_prefix}/bin/python{version}")
    return next((c for c in candidates if _is_python(Path(c))), None)


def _is_python(path: Path) -> bool:
    named = any(word in path.name.lower() for word in ("python", "pypy"))
    return named and os.access(path, os.X_OK)


@dataclass(frozen=True, slots=True)
class Launch:
    """All that a child process is started from; the same at each restart.

    Attributes:
        recipe: What it evaluates with, pickled.
        threads: Threads of its numerical libraries.
        message_bytes: Of one message in either direction.
        path: Where it imports from.
        folder: Its working directory.
    """

    recipe: bytes
    threads: int
    message_bytes: int
    path: tuple[str, ...]
    folder: str | None

    @classmethod
    def here(cls, recipe: bytes, *, threads: int, message_bytes: int) -> Launch:
        """One that finds modules and files where this process finds them now."""
        try:
            folder = str(Path.cwd())
        except OSError:
            folder = None
        path = tuple(str(Path(folder or "/", entry)) for entry in sys.path)
        return cls(recipe, threads, message_bytes, path, folder)

    def start(self, theirs: socket.socket) -> subprocess.Popen[bytes]:
        """Starts a process whose standard input is the socket, and that prints nothing.

        Raises:
            OSError: The system starts none.
        """
        interpreter = _interpreter()
        if interpreter is None:
            raise FileNotFoundError("no interpreter")
        flags = ["-P", "-s"] if sys.flags.no_user_site else ["-P"]
        folder = self.folder if self.folder and Path(self.folder).is_dir() else None
        return subprocess.Popen(
            [interpreter, *flags, "-c", _CODE, str(os.getpid()), *self.path],
            stdin=theirs.fileno(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=folder,
            env=evaluator_environment(self.threads),
        )
