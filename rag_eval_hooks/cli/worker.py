"""`rag-eval-hooks worker`: a Celery worker that evaluates the samples of a fleet."""

from __future__ import annotations

import argparse
from importlib import import_module

__all__ = ["register"]

_DESCRIPTION = """\
Evaluates the samples that applications ship: `celery -A rag_eval_hooks_celery.tasks worker`, with
the settings of this process. Further options are Celery's own."""


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the subcommand."""
    worker = subparsers.add_parser(
        "worker", help="evaluate the samples of a fleet", description=_DESCRIPTION
    )
    worker.add_argument("options", nargs=argparse.REMAINDER, help="options of Celery's worker")
    worker.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    app = import_module("rag_eval_hooks_celery.tasks").app
    app.worker_main(["worker", "-l", "INFO", "--without-mingle", *arguments.options])
    return 0
