"""Every word that a language model is told, from `wording.toml`."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from importlib.resources import files
from typing import Any, Final

_WORDING: Final[Mapping[str, Any]] = tomllib.loads(
    files("rag_eval_hooks.prompts").joinpath("wording.toml").read_text("utf-8")
)
_COMMON: Final = _WORDING["system"]["common"]

PROMPTS_VERSION: Final[str] = _WORDING["version"]
"""Changes with every change of wording: scores of different versions do not compare."""
SYSTEM_TEXTS: Final[Mapping[str, str]] = {
    name: f"{_COMMON}\n\n{text}" for name, text in _WORDING["system"].items() if name != "common"
}
LEADS: Final[Mapping[str, str]] = _WORDING["leads"]
"""First line of the task, by call."""
INSTRUCTIONS: Final[Mapping[str, Any]] = _WORDING["instructions"]
"""Task by finding; of a grade, one for each template."""
