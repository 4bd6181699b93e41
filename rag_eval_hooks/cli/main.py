"""Entry point of the command line: parse arguments, run the subcommand, print errors."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from rag_eval_hooks._version import __version__
from rag_eval_hooks.cli import (
    UsageError,
    calibrate,
    compare,
    doctor,
    evaluate,
    fleet,
    metrics,
    report_command,
)
from rag_eval_hooks.errors import ConfigError

__all__ = ["build_parser", "main"]

Run: TypeAlias = Callable[[argparse.Namespace], int]

USAGE_ERROR: Final = 2
INTERRUPTED: Final = 130
NOT_READ: Final = 141


def build_parser() -> argparse.ArgumentParser:
    """Return the parser with every subcommand; the chosen one's function is in `run`."""
    parser = argparse.ArgumentParser(
        prog="rag-eval-hooks", description="Live quality evaluation for RAG pipelines."
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    subparsers = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    commands = (evaluate, report_command, compare, calibrate, metrics, doctor, fleet)
    for command in commands:
        command.register(subparsers)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line.

    Args:
        argv: Arguments without the program's name; those of the process by default.

    Returns:
        The exit code: 0 when all went well, 1 when the command found something wrong, 2 for
        wrong input, 130 after an interrupt, 141 where nobody reads the output to its end.
    """
    arguments = build_parser().parse_args(argv)
    run: Run = arguments.run
    try:
        code = run(arguments)
        sys.stdout.flush()
        return code
    except (UsageError, ConfigError) as error:
        print(f"rag-eval-hooks: error: {error}", file=sys.stderr)
        return USAGE_ERROR
    except KeyboardInterrupt:
        print("rag-eval-hooks: interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        # As in `| head`. The interpreter would complain about output that is not written yet.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return NOT_READ


if __name__ == "__main__":
    sys.exit(main())
