"""`rag-eval-hooks worker`: a Celery worker that evaluates samples."""

from __future__ import annotations

import argparse
from importlib import import_module

ABOUT = """\
Evaluates the samples of a fleet. This is `celery -A rag_eval_hooks_celery.tasks worker` with the
settings of this process. Further options are Celery's own."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("options", nargs=argparse.REMAINDER, help="options of Celery's worker")


def run(arguments: argparse.Namespace) -> int:
    app = import_module("rag_eval_hooks_celery.tasks").app
    app.worker_main(["worker", "-l", "INFO", "--without-mingle", *arguments.options])
    return 0
