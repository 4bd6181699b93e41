"""Sources of findings: judge, embedder and token scorer."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, TypeAlias

from rag_eval_hooks.errors import JudgeError
from rag_eval_hooks.findings import EMBEDDED, TOKEN_SCORED, Finding
from rag_eval_hooks.incidents import Incidents, without_exit
from rag_eval_hooks.judges.base import Embedder, Judge, TokenScorer

__all__ = ["Source", "Sources"]

Source: TypeAlias = Judge | Embedder | TokenScorer
_LONGEST_LOAD: Final = 600.0
"""Seconds after which a model that still loads is charged to the sample."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """Sources of findings.

    Attributes:
        judge: Decomposes, verifies, rates and grades.
        embedder: Embeds texts, or None: similarities are then absent as `missing_input`.
        scorer: Compares texts token by token, or None: token scores are then absent likewise.
    """

    judge: Judge
    embedder: Embedder | None = None
    scorer: TokenScorer | None = None

    async def warm_up(self, wanted: frozenset[Finding], incidents: Incidents) -> None:
        """Load the local models that some findings need; a failure shows on use.

        Args:
            wanted: The findings.
            incidents: Counts what code of a user's raises.
        """
        needed: list[Source | None] = []
        needed += [self.judge] if wanted - EMBEDDED - TOKEN_SCORED else []
        needed += [self.embedder] if wanted & EMBEDDED else []
        needed += [self.scorer] if wanted & TOKEN_SCORED else []
        for source in needed:
            if (load := getattr(source, "warm_up", None)) is not None:
                try:
                    with suppress(JudgeError, TimeoutError):
                        await without_exit(asyncio.wait_for(load(), _LONGEST_LOAD))
                except Exception as error:  # noqa: BLE001 - a judge can be the user's own code
                    incidents.report(f"judge {getattr(source, 'name', '')}", error)
