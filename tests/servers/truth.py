"""Findings of an honest model in the `VERIFY` task, and how findings are compared with them."""

from __future__ import annotations

from rag_eval_hooks.findings import Finding, Findings
from rag_eval_hooks.score import NotScored
from rag_eval_hooks.usage import Usage
from tests.servers.samples import verdicts

__all__ = ["TRUTH", "found", "spent"]

TRUTH = {
    Finding.ANSWER_SUPPORT: [(True, False, False), (False, False, False)],
    Finding.REFERENCE_SUPPORT: [(True, False, False), (False, False, True)],
    Finding.RELEVANCE: [True, False, False],
    Finding.ENTITIES_FOUND: [True, True, True, False],
}


def found(findings: Findings) -> dict[Finding, object]:
    """The bare verdicts, or the cause of an absence."""
    values = {kind: getattr(findings, kind.value) for kind in TRUTH}
    return {k: v.cause if isinstance(v, NotScored) else verdicts(v) for k, v in values.items()}


def spent(findings: Findings) -> Usage:
    """Return the usage of all findings together."""
    return sum(findings.usage.values(), Usage())
