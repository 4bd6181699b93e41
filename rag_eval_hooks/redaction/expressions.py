"""Compiles the regular expressions of `expressions.toml`."""

from __future__ import annotations

import re
from typing import Final

from rag_eval_hooks.text.folding import toml_of

_PART: Final = re.compile("<([a-z_]+)>")


def expressions(section: str, **parts: str) -> dict[str, re.Pattern[str]]:
    table = toml_of("expressions.toml", __package__ or "")
    parts |= table["parts"]

    def expanded(text: str) -> str:
        return _PART.sub(lambda found: expanded(parts[found[1]]), text)

    alternatives = {
        name: "|".join(text) if isinstance(text, list) else text
        for name, text in table[section].items()
    }
    return {name: re.compile(expanded(text)) for name, text in alternatives.items()}
