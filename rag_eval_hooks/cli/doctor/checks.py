"""The checks in their order. To add one: a module with a function, and a line here."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from rag_eval_hooks.cli.doctor.clock import check_clock
from rag_eval_hooks.cli.doctor.exporter import check_exporter
from rag_eval_hooks.cli.doctor.findings import check_embedder, check_judge, check_token_scorer
from rag_eval_hooks.cli.doctor.metrics import check_metrics
from rag_eval_hooks.cli.doctor.packages import check_extras, check_python
from rag_eval_hooks.cli.doctor.places import check_files, check_sinks
from rag_eval_hooks.cli.doctor.redaction import check_redaction
from rag_eval_hooks.cli.doctor.result import Check, Result, Setup, Status
from rag_eval_hooks.cli.doctor.spool import check_spool_file
from rag_eval_hooks.cli.doctor.stores import check_budget, check_references

__all__ = ["CHECKS", "run_checks"]

CHECKS: Final[tuple[tuple[str, Check], ...]] = (
    ("python", check_python),
    ("extras", check_extras),
    ("metrics", check_metrics),
    ("files", check_files),
    ("redaction", check_redaction),
    ("judge", check_judge),
    ("embedder", check_embedder),
    ("token scorer", check_token_scorer),
    ("exporter", check_exporter),
    ("sinks", check_sinks),
    ("spool", check_spool_file),
    ("references", check_references),
    ("budget", check_budget),
    ("clock", check_clock),
)


def run_checks(setup: Setup) -> Iterator[Result]:
    """The results of all checks; one that raises has failed, and the others still run."""
    for name, check in CHECKS:
        try:
            yield from check(setup)
        except Exception as error:  # noqa: BLE001 - a check runs the user's models and files
            text = f"the check ended with {type(error).__name__}"
            yield Result(check=name, status=Status.FAILED, text=text, advice="report this")
