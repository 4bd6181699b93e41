"""Entry point of the command line: parse arguments, run the subcommand, print errors."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Final

from rag_eval_hooks._version import __version__
from rag_eval_hooks.cli.arguments import add_arguments
from rag_eval_hooks.errors import RagEvalError, unknown
from rag_eval_hooks.text.folding import toml_of

_WRONG_USE: Final = 2
_INTERRUPTED: Final = 130
_NOT_READ: Final = 141


def work(arguments: argparse.Namespace) -> int:
    app = import_module("rag_eval_hooks_celery.tasks").app
    app.worker_main(["worker", "-l", "INFO", "--without-mingle", *arguments.others])
    return 0


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="rag-eval-hooks", description="Live quality evaluation for RAG pipelines."
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    subparsers = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for name, command in toml_of("commands.toml", __package__ or "").items():
        about = command["about"]
        one = subparsers.add_parser(name, help=about.partition(".")[0], description=about)
        add_arguments(one, command.get("arguments", {}))
        options = [name for action in one._actions for name in action.option_strings]
        more = command.get("takes_others", False)
        one.set_defaults(run=command["run"], known=options, takes_others=more, refuse=one.error)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line.

    Returns:
        The exit code. 0: success. 1: a gate failed, or a row has no result. 2: an invalid argument
        or file, or a missing package. 3: a metric has no score. 130: interrupted. 141: another
        program closed the output pipe early.
    """
    arguments, others = build_parser().parse_known_args(argv)
    arguments.others = others
    if others and not arguments.takes_others:
        options = [name for name in arguments.known if name.startswith("--")]
        arguments.refuse(unknown("The command does not know the argument", others[0], options))
    module, _, function = arguments.run.partition(":")
    try:
        code = int(getattr(import_module(f"{__package__}.{module}"), function)(arguments))
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        # After `| head`, the interpreter would complain about unwritten output.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _NOT_READ
    except KeyboardInterrupt:
        print("rag-eval-hooks: interrupted", file=sys.stderr)
        return _INTERRUPTED
    except (RagEvalError, ImportError, OSError) as error:
        print(f"rag-eval-hooks: error: {_message(error)}", file=sys.stderr)
        return _WRONG_USE


def _message(error: Exception) -> str:
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    if isinstance(error, ModuleNotFoundError) and error.name:
        return f"{error.name} is not installed. Run: pip install {error.name.partition('.')[0]}"
    return str(error) or type(error).__name__


if __name__ == "__main__":
    sys.exit(main())
