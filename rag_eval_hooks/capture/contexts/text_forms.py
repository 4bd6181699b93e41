"""Forms in which a text may stand in a prompt."""

from __future__ import annotations

import html
import json
import re
import unicodedata
from collections.abc import Iterator

__all__ = ["TELLING", "fold", "forms", "is_telling", "least_shown"]

TELLING = 20
"""Characters below which a text may stand in a prompt by chance; a wide one counts as two."""
_SHOWN = 64
"""Characters of a text that must stand in the prompt where its end was cut; wide ones likewise."""

_QUOTED = re.compile(r"^[ \t]*>[> \t]*", re.MULTILINE)
_ESCAPED = re.compile(r"[\n\r\t\\'\"&<>\x00-\x1f]|[^\x00-\x7f]")


def fold(text: str) -> str:
    """Return the text with white space collapsed, without Markdown's quote marks."""
    return " ".join((_QUOTED.sub("", text) if ">" in text else text).split())


def forms(text: str) -> Iterator[str]:
    """Yield the folded forms in which formatters write a text, most likely first.

    Inside JSON, as Python's `repr` in either kind of quotes, and with HTML escapes.
    """
    plain = fold(text)
    yield plain
    if _ESCAPED.search(text) is None:
        return
    given = {plain}
    for form in map(fold, _written(text)):
        if form not in given:
            given.add(form)
            yield form


def _written(text: str) -> Iterator[str]:
    yield json.dumps(text)[1:-1]
    yield json.dumps(text, ensure_ascii=False)[1:-1]
    yield repr(text)[1:-1]
    # With a double quote in it, repr takes single quotes.
    yield repr('"' + text)[2:-1]
    escaped = html.escape(text)
    yield escaped
    yield html.escape(text, quote=False)
    yield escaped.replace("&#x27;", "&#39;").replace("&quot;", "&#34;")
    # Quote marks that no longer begin a line.
    yield " ".join(text.split())


def is_telling(folded: str) -> bool:
    """Return whether a text is long enough not to be in a prompt by chance."""
    return len(folded) + _wide(folded[:TELLING]) >= TELLING


def least_shown(folded: str) -> int:
    """Return how much of a cut text's beginning must be in a prompt."""
    return _SHOWN - _wide(folded[:_SHOWN]) // 2


def _wide(text: str) -> int:
    return 0 if text.isascii() else sum(unicodedata.east_asian_width(c) in "WF" for c in text)
