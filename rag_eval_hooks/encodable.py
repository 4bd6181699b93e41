"""Replaces lone surrogates: some models return them, but UTF-8 cannot encode them."""

from __future__ import annotations


def encodable(text: str) -> str:
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")
