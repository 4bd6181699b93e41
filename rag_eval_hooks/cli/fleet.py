"""`rag-eval-hooks worker` and `rag-eval-hooks dead-letters`: the fleet's workers and leftovers."""

from __future__ import annotations

import argparse
import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from rag_eval_hooks.cli import UsageError
from rag_eval_hooks.config.settings import RagEvalConfig

if TYPE_CHECKING:
    from rag_eval_hooks.fleet.dead_letters import DeadLetter

__all__ = ["register"]

_WORKER = """\
Evaluates the samples that applications ship: `celery -A rag_eval_hooks.distributed worker`, by the
settings of this process. Further options are Celery's own."""


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the subcommands."""
    worker = subparsers.add_parser(
        "worker", help="evaluate the samples of a fleet", description=_WORKER
    )
    worker.add_argument("options", nargs=argparse.REMAINDER, help="options of Celery's worker")
    worker.set_defaults(run=_run_worker)
    letters = subparsers.add_parser(
        "dead-letters",
        help="samples that workers gave up",
        description="Lists, shows and sends back samples that no worker survived or could read. "
        "While it looks, they are out of the queue.",
    )
    letters.add_argument("action", choices=("list", "show", "send-back"))
    letters.add_argument("ids", nargs="*", metavar="ID", help="ids, or the beginnings of ids")
    letters.add_argument("--all", action="store_true", help="every letter")
    letters.add_argument(
        "--content", action="store_true", help="show texts of the application, too"
    )
    letters.set_defaults(run=_run_letters)


def _run_worker(arguments: argparse.Namespace) -> int:
    from rag_eval_hooks.distributed.celery import app

    app.worker_main(["worker", "-l", "INFO", "--without-mingle", *arguments.options])
    return 0


def _run_letters(arguments: argparse.Namespace) -> int:
    from rag_eval_hooks.fleet.broker import Broker
    from rag_eval_hooks.fleet.dead_letters import dead_letters, send_back
    from rag_eval_hooks.fleet.store import FleetStore

    if arguments.action != "list" and not (arguments.ids or arguments.all):
        raise UsageError(f"dead-letters {arguments.action}: wants ids, or --all")
    broker = Broker.of(RagEvalConfig.load())

    def chosen(letter: DeadLetter) -> bool:
        by_id = any(letter.key.startswith(key) for key in arguments.ids)
        return by_id or arguments.all or not arguments.ids

    if arguments.action == "send-back":
        letters = send_back(broker, FleetStore(broker.redis_url, keep=0), chosen)
        print(f"{len(letters)} sent back")
    else:
        letters = [letter for letter in dead_letters(broker) if chosen(letter)]
        for letter in letters:
            _print(letter, full=arguments.action == "show", content=arguments.content)
    return 0 if letters or not arguments.ids else 1


def _print(letter: DeadLetter, *, full: bool, content: bool) -> None:
    at = datetime.fromtimestamp(letter.at, UTC).isoformat(timespec="seconds")
    ids = [str(sample.get("sample_id")) for sample in letter.samples]
    service = letter.service or "unknown service"
    print(f"{letter.key}  {at}  {letter.reason}  {service}  {', '.join(ids)}")
    for sample in letter.samples if full else ():
        shown = sample if content else {k: v for k, v in sample.items() if k in _WITHOUT_CONTENT}
        print(json.dumps(shown, indent=2, ensure_ascii=False))


_WITHOUT_CONTENT = ("sample_id", "trace_id", "span_id", "workflow", "status", "ended_at")
