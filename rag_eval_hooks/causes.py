"""Finds likely causes of exceptions in the application's functions, without quoting texts."""

from __future__ import annotations

import os
import re
import traceback
from dataclasses import FrozenInstanceError
from types import CodeType, FrameType
from typing import Any, Final
from urllib.parse import urlsplit

from rag_eval_hooks.errors import NoOutcome, nearest

__all__ = ["is_our_frame", "named"]

_FIXES: Final = {
    "Context": "its text is context.text",
    "Score": "its number is score.value",
    "NotScored": "it has no number; check isinstance(outcome, Score) first",
    "Sample": "read an attribute, such as sample.answer",
    "Evaluation": "read evaluation.scores['<metric>'].value or evaluation.sample.answer",
    "NoneType": "a field that the sample lacks is None; check it first",
    "coroutine": "await it first",
}
_TYPED: Final = (
    r"'\w+' object (is not \w+|does not support [\w ]+|has no attribute '\w+')",
    r"object of type '\w+' has no len\(\)",
    r"\w+ indices must be integers(?: or slices)?, not '?\w+'?",
    r"unsupported operand type\(s\) for \S+ '\w+' and '\w+'",
    r"'\S+' not supported between instances of '\w+' and '\w+'",
    r"sequence item \d+: expected str instance, \w+ found",
    r"'in <string>' requires string as left operand, not \w+",
    r"argument of type '\w+' is not iterable",
    r"argument of type '\w+' is not a container or iterable",
    r"can only concatenate \w+ \(not \"\w+\"\) to \w+",
    r"[\w.]+\(\) argument must be a string or a real number, not '\w+'",
    r"type \w+ doesn't define __\w+__ method",
    r"Object of type \w+ is not JSON serializable",
    r"unsupported format string passed to \w+\.__format__",
    r"expected string or bytes-like object, got '\w+'",
    r"[\w.<>]+\(\) (takes [\w ]+ but \d+ w\w+ given|missing [\w ]+: [\w', ]+)",
    r"[\w.<>]+\(\) got an unexpected keyword argument",
    r"object \w+ can't be used in 'await' expression",
)
"""Error messages of Python that contain types but no values."""
_PLAIN: Final = {
    r"division by zero": "check the number first",
    r"(list|tuple|string) index out of range": "it has fewer items",
    r"could not convert string to float": "the text is not a number",
    r"invalid literal for int\(\)": "the text is not a whole number",
    r"(not enough|too many) values to unpack": "",
    r"SQLite objects created in a thread": (
        "functions run in threads of rag-eval-hooks; connect inside the function, "
        "or with check_same_thread=False"
    ),
    r"no running event loop|There is no current event loop": (
        "the function runs in a thread; write it as async def"
    ),
    r"asyncio\.run\(\) cannot be called": "write await instead",
    # The lookahead leaves out the message's beginning, which quotes objects.
    r"Event loop is closed|(?=.*(attached|bound) to a different (event )?loop)": (
        "the client belongs to another event loop; create it inside the function"
    ),
}
"""Patterns of value-free error messages of Python, with the fix for each."""
_MESSAGE: Final = re.compile("|".join((*_TYPED, *_PLAIN)))
_OFFLINE: Final = re.compile(r"Connect|Timeout|Network|URLError")


def named(error: BaseException) -> str:
    """Describe an exception by its type, its likely cause, and names from the code."""
    kind = type(error).__name__
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    if not frames:
        return kind
    theirs = (frame for frame in reversed(frames) if not is_our_frame(frame))
    try:
        cause = _cause(error, frames[-1], next(theirs, frames[-1]).f_code)
    except Exception:  # noqa: BLE001 - the host's edge: it runs methods of the host's objects
        return kind
    return f"{kind} {cause}" if cause else kind


def _cause(error: BaseException, last: FrameType, code: CodeType) -> str:
    if isinstance(error, NoOutcome):
        return f"({error})" if error.name in code.co_consts else ""
    if isinstance(error, FrozenInstanceError):
        name, owner = (last.f_locals.get(key) for key in ("name", "self"))
        advice = f"write dataclasses.replace({type(owner).__name__.lower()}, {name}=...)"
        told = f"(a {type(owner).__name__} cannot be changed; {advice})"
        return told if name in code.co_names else ""
    if isinstance(error, AttributeError | NameError):
        return _unknown_name(error) if error.name in code.co_names else ""
    if isinstance(error, KeyError):
        key = next(iter(error.args), None)
        return repr(key) if isinstance(key, str) and key in code.co_consts else ""
    if told := _of_file(error, last) or _of_server(error):
        return told
    if found := _MESSAGE.match(str(error)):
        return f"({'; '.join(filter(None, (found[0], _fix(found))))})"
    return ""


def _of_file(error: BaseException, last: FrameType) -> str:
    if not isinstance(error, OSError) or not isinstance(error.errno, int):
        return ""
    # The application may name its files after texts. Our code opens only configured files.
    file = f" {error.filename!r}" if error.filename and is_our_frame(last) else ""
    return f"({os.strerror(error.errno)}{file})"


def _of_server(error: BaseException) -> str:
    """Return status and host of an HTTP error. Path and query may contain a key or a text."""
    reply: Any = getattr(error, "response", error)
    status = getattr(reply, "status_code", getattr(reply, "code", None))
    kind = type(error).__name__
    if status not in range(400, 600) or "HTTP" not in kind:
        return "(the server does not reply; check its address)" if _OFFLINE.search(kind) else ""
    address = urlsplit(str(getattr(reply, "url", "")))
    host = ":".join(str(part) for part in (address.hostname, address.port) if part)
    return f"(HTTP {status} from {host or 'the server'}; check its address and key)"


def _unknown_name(error: AttributeError | NameError) -> str:
    name = str(error.name)
    if isinstance(error, NameError):
        return repr(name)
    owner = type(error.obj)
    known = [one for one in dir(error.obj) if one[0] != "_"]
    if near := nearest(name, known):
        return f"{name!r} (did you mean {near!r}?)"
    fix = _FIXES.get(owner.__name__, "")
    if owner.__module__.startswith("rag_eval_hooks"):
        return f"{name!r} (its names are {', '.join(known)}{fix and f'; {fix}'})"
    return f"{name!r} of {owner.__name__}{fix and f' ({fix})'}"


def _fix(found: re.Match[str]) -> str:
    plain = (fix for start, fix in _PLAIN.items() if re.match(start, found.string))
    words = re.findall(r"\w+", found[0])
    return next(plain, None) or next((_FIXES[one] for one in words if one in _FIXES), "")


def is_our_frame(frame: FrameType) -> bool:
    return str(frame.f_globals.get("__name__", "")).startswith("rag_eval_hooks")
