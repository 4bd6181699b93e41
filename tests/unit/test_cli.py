"""The command line as a whole: exit codes, and errors without tracebacks."""

from __future__ import annotations

import subprocess
import sys

import pytest

from rag_eval_hooks._version import __version__
from rag_eval_hooks.cli.main import main


def test_version_prints_the_package_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out.strip() == f"rag-eval-hooks {__version__}"


def test_command_missing_is_wrong_use(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([])
    assert ended.value.code == 2
    assert "COMMAND" in capsys.readouterr().err


def test_output_closed_early_ends_without_traceback() -> None:
    """Behind `| head` nothing is printed to stderr, and the exit code is the shell's."""
    command = [sys.executable, "-m", "rag_eval_hooks", "metrics"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        told = process.stderr.read()
    assert told == b""
    assert process.returncode == 141
