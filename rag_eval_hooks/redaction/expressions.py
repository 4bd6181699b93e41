"""Reads the regular expressions of `expressions.toml`."""

from __future__ import annotations

from rag_eval_hooks.text.folding import LazyPatterns, compiled, toml_of


def expressions(section: str, **parts: str) -> LazyPatterns:
    table = toml_of("expressions.toml", __package__ or "")
    return compiled(table[section], table["parts"] | parts, flags=0)
