"""Patterns in TOML files, where `<name>` refers to another pattern."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from importlib.resources import files
from typing import Any, Final

_PART: Final = re.compile(r"(?<!P)<(\w+)>")


def toml_of(name: str, package: str = "rag_eval_hooks.text") -> dict[str, Any]:
    """Return the data in a TOML file of a package."""
    return tomllib.loads(files(package).joinpath(name).read_text("utf-8"))


def compiled(given: Mapping[str, str | list[str]]) -> dict[str, re.Pattern[str]]:
    """Compile case-insensitive patterns by name, without parts. A list matches if any item does."""
    texts = {name: "|".join(one) if isinstance(one, list) else one for name, one in given.items()}
    parts = {part for text in texts.values() for part in _PART.findall(text)}
    whole = {name: _whole(text, texts) for name, text in texts.items() if name not in parts}
    return {name: re.compile(text, re.IGNORECASE) for name, text in whole.items()}


def _whole(text: str, texts: Mapping[str, str]) -> str:
    while (whole := _PART.sub(lambda part: texts[part[1]], text)) != text:
        text = whole
    return text
