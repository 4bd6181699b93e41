"""A provider's prompt cache: it knows the beginning of a prompt once a reply to it has begun."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

_BLOCK = 64


class PrefixCache:
    def __init__(self) -> None:
        self._known: set[bytes] = set()

    def served(self, body: Mapping[str, Any]) -> int:
        length = 0
        for end, key in self._blocks(body):
            if key not in self._known:
                break
            length = end
        return length

    def replied(self, body: Mapping[str, Any]) -> None:
        self._known |= {key for _end, key in self._blocks(body)}

    @staticmethod
    def _blocks(body: Mapping[str, Any]) -> list[tuple[int, bytes]]:
        # A provider puts the schema before the messages.
        shape = json.dumps(body.get("response_format", ""))
        text = "\n".join([shape, *(message["content"] for message in body.get("messages", ()))])
        digest = hashlib.blake2b(digest_size=8)
        blocks = []
        for start in range(0, len(text) - _BLOCK + 1, _BLOCK):
            digest.update(text[start : start + _BLOCK].encode("utf-8", "replace"))
            blocks.append((start + _BLOCK, digest.digest()))
        return blocks
