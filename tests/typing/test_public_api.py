"""The public interface as an application types it: checked by mypy, and run."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from pathlib import Path

import rag_eval_hooks
from rag_eval_hooks import RagEval, RagEvalConfig
from rag_eval_hooks.config.settings import ArgumentKeywords, SettingKeywords

WITH_AN_EXTRA = ("OpenAIEmbedder", "OpenAIJudge", "Patterns", "RagEvalSpanProcessor")


def test_every_public_name_is_typed() -> None:
    used = ast.parse(Path(__file__).with_name("api.py").read_text(encoding="utf-8"))
    nodes = [node for node in ast.walk(used) if isinstance(node, ast.Attribute)]
    named = {n.attr for n in nodes if isinstance(n.value, ast.Name) and n.value.id == "api"}
    assert sorted(named) == sorted([*rag_eval_hooks.__all__, *WITH_AN_EXTRA])


def test_every_setting_is_a_typed_keyword() -> None:
    keywords = {*ArgumentKeywords.__annotations__} | {*SettingKeywords.__annotations__}
    assert keywords == {*RagEvalConfig.model_fields, "config_file"}
    arguments = {*inspect.signature(RagEval).parameters} - {"given"}
    assert keywords == {*SettingKeywords.__annotations__} | (arguments & keywords)


def test_every_public_name_exists() -> None:
    names = rag_eval_hooks.__all__
    assert list(names) == sorted(set(names))
    assert all(hasattr(rag_eval_hooks, name) for name in (*names, *WITH_AN_EXTRA))


def test_a_star_import_needs_no_extra() -> None:
    hide = "sys.modules['openai'] = sys.modules['opentelemetry.sdk'] = None"
    code = f"import sys; {hide}; from rag_eval_hooks import *; RagEval"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert not {*WITH_AN_EXTRA} & {*rag_eval_hooks.__all__}
