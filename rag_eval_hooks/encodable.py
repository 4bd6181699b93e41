"""Replacement of lone surrogates, which UTF-8 cannot encode."""

from __future__ import annotations


def encodable(text: str) -> str:
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")
