"""Compiles the regular expressions of `expressions.toml`."""

from __future__ import annotations

import re
import tomllib
from importlib import resources
from typing import Any, Final

__all__ = ["expressions", "read_table"]

_PART: Final = re.compile("<([a-z_]+)>")


def read_table(file: str) -> dict[str, Any]:
    return tomllib.loads(resources.files(__package__).joinpath(file).read_text(encoding="utf-8"))


def expressions(section: str, **parts: str) -> dict[str, re.Pattern[str]]:
    table = read_table("expressions.toml")
    parts |= table["parts"]

    def expanded(text: str) -> str:
        return _PART.sub(lambda found: expanded(parts[found[1]]), text)

    alternatives = {
        name: "|".join(text) if isinstance(text, list) else text
        for name, text in table[section].items()
    }
    return {name: re.compile(expanded(text)) for name, text in alternatives.items()}
