"""Findings of an honest model on the `ONE` task, and how findings are compared with them."""

from __future__ import annotations

from rag_eval_hooks.findings import Finding, Findings
from rag_eval_hooks.score import Cause, NotScored
from rag_eval_hooks.usage import Usage
from tests.servers.samples import verdicts

__all__ = ["TRUTH", "found", "is_right_or_absent", "spent"]

TRUTH = {
    Finding.ANSWER_SUPPORT: [(True, False, False), (False, False, False)],
}


def found(findings: Findings) -> dict[Finding, object]:
    """The bare verdicts, or the cause of an absence."""
    values = {kind: getattr(findings, kind.value) for kind in TRUTH}
    return {k: v.cause if isinstance(v, NotScored) else verdicts(v) for k, v in values.items()}


def is_right_or_absent(values: dict[Finding, object]) -> bool:
    """Whether each finding of `found` failed, or has right verdicts and open ones (None) only."""
    return all(
        value is Cause.JUDGE_FAILED
        or (
            isinstance(value, list)
            and all(one in (None, true) for one, true in zip(value, TRUTH[kind], strict=True))
        )
        for kind, value in values.items()
    )


def spent(findings: Findings) -> Usage:
    """Return the usage of all findings together."""
    return sum(findings.usage.values(), Usage())
