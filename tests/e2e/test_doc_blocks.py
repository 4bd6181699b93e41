"""Every block of code in the documents runs, or is read, by what it is written for."""

from __future__ import annotations

import ast
import builtins
import re
import shlex
import tomllib
from pathlib import Path

import pytest

from rag_eval_hooks import RagEvalConfig
from rag_eval_hooks.cli.main import build_parser
from tests.servers.judge_server import JudgeServer
from tests.support.scripts import run_script

ROOT = Path(__file__).parents[2]
PAGES = [*sorted((ROOT / "docs").rglob("*.md")), ROOT / "README.md"]
pytestmark = pytest.mark.skipif(not (ROOT / "docs").is_dir(), reason="not in a source tree")


def blocks(page: Path, language: str) -> list[str]:
    text = page.read_text(encoding="utf-8")
    return re.findall(rf"^```{language}[^\n]*\n(.*?)^```$", text, re.S | re.M)


def pages_with(language: str) -> pytest.MarkDecorator:
    found = [page for page in PAGES if page.is_file() and blocks(page, language)]
    return pytest.mark.parametrize("page", found, ids=lambda page: str(page.relative_to(ROOT)))


@pages_with("python")
def test_python_runs(page: Path, tmp_path: Path) -> None:
    """The blocks of a page run one after the other, in an application as its reader has one."""
    parts = blocks(page, "python")
    code = "\n".join(parts).replace("/var/lib/app", str(tmp_path))
    names = ", ".join(sorted(undefined(parts)))
    prelude = "import tests.support.doc_clients\n"
    prelude += f"from tests.support.doc_names import {names}\n" if names else ""
    with JudgeServer() as judge:
        run_script(
            tmp_path, code, prelude=prelude, OPENAI_API_KEY="none", OPENAI_BASE_URL=judge.url
        )


def undefined(parts: list[str]) -> set[str]:
    """Return the names that blocks use before one defines or imports them."""
    missing: set[str] = set()
    made = set(dir(builtins))
    for part in parts:
        used, own = names_of(part)
        made |= own
        missing |= used - made
    return missing


def names_of(code: str) -> tuple[set[str], set[str]]:
    """Return the names that code uses, and those that it defines or imports."""
    nodes = list(ast.walk(ast.parse(code)))
    names = [node for node in nodes if isinstance(node, ast.Name)]
    made = {node.id for node in names if isinstance(node.ctx, ast.Store)}
    made |= {node.arg for node in nodes if isinstance(node, ast.arg)}
    definitions = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    made |= {node.name for node in nodes if isinstance(node, definitions)}
    imports = [node for node in nodes if isinstance(node, ast.Import | ast.ImportFrom)]
    made |= {alias.asname or alias.name for node in imports for alias in node.names}
    return {node.id for node in names if isinstance(node.ctx, ast.Load)}, made


@pages_with("toml")
def test_toml_is_a_file_of_settings(page: Path) -> None:
    """Every table is one that a file of settings may hold."""
    for block in blocks(page, "toml"):
        RagEvalConfig(**tomllib.loads(block))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_commands_exist(page: Path) -> None:
    """Every command of ours that a page shows, in a text too, takes the arguments shown."""
    text = page.read_text(encoding="utf-8")
    shown = [
        line for block in blocks(page, "sh") for line in block.replace("\\\n", " ").split("\n")
    ]
    for line in [*shown, *re.findall(r"`(rag-eval-hooks [-a-z.\"][^`]*)`", text)]:
        words = [word for word in shlex.split(line, comments=True) if "=" not in word.split("-")[0]]
        if words[:1] == ["rag-eval-hooks"]:
            # A command without arguments may be only named.
            arguments = words[1:] if len(words) > 2 else [*words[1:], "--help"]
            assert accepts(arguments), line


def accepts(arguments: list[str]) -> bool:
    try:
        build_parser().parse_args(arguments)
    except SystemExit as ended:
        return not ended.code
    return True


def test_first_script_prints_the_output_that_the_readme_shows(tmp_path: Path) -> None:
    script, shown = (blocks(ROOT / "README.md", kind)[0] for kind in ("python", "text"))
    assert run_script(tmp_path, script).strip() == shown.strip()
