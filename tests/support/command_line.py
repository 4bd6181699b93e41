"""The command line, run in this process: a new one takes half a second."""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple
from unittest import mock

from rag_eval_hooks.cli.main import main


class Finished(NamedTuple):
    code: int
    out: str
    err: str


def run_command(folder: Path, *arguments: str, variables: Mapping[str, str]) -> Finished:
    kept = {
        name: os.environ[name] for name in ("PATH", "HOME", "SSL_CERT_FILE") if name in os.environ
    }
    out, err = io.StringIO(), io.StringIO()
    with (
        mock.patch.dict(os.environ, {**kept, **variables}, clear=True),
        contextlib.chdir(folder),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            code = main(arguments)
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else 1
    return Finished(code, out.getvalue(), err.getvalue())
