"""Code in the documents: the README's runs, and every page names only what exists."""

from __future__ import annotations

import ast
import importlib
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
README = ROOT / "README.md"
PAGES = [*sorted((ROOT / "docs").rglob("*.md")), README]
OWN = ("rag_eval_hooks", "rag_eval_hooks_")
APPLICATION = """
import sys, types
from langchain_core.documents import Document
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import tool
from llama_index.core import MockEmbedding
from llama_index.core.llms import MockLLM
from llama_index.core.schema import TextNode
from llama_index.core.settings import Settings

TEXTS = ["The ferry leaves the north quay at 07:40.", "A single ticket costs 4 crowns."]
Settings.embed_model = MockEmbedding(embed_dim=8)
nodes = [TextNode(text=text) for text in TEXTS]
retriever = RunnableLambda(lambda _: [Document(page_content=text) for text in TEXTS])
search_tool = tool("search", description="Search.")(lambda query: TEXTS[0])
# The client of LlamaIndex's OpenAI models excludes the newest `openai`.
sys.modules["llama_index.llms"] = types.ModuleType("llama_index.llms")
sys.modules["llama_index.llms.openai"] = types.SimpleNamespace(OpenAI=lambda **_: MockLLM())
"""
"""What the README's blocks use and do not define."""
pytestmark = pytest.mark.skipif(not README.is_file(), reason="not in a source tree")


def blocks(page: Path, language: str) -> list[str]:
    text = page.read_text(encoding="utf-8")
    return re.findall(rf"^```{language}[^\n]*\n(.*?)^```$", text, re.S | re.M)


def test_code_of_the_readme_runs(tmp_path: Path) -> None:
    """The blocks run one after the other, and the first prints the output that is shown."""
    first, *others = blocks(README, "python")
    assert run_script(tmp_path, first).strip() == blocks(README, "text")[0].strip()
    code = "\n".join([first, *others])
    with JudgeServer() as judge:
        run_script(
            tmp_path, code, prelude=APPLICATION, OPENAI_API_KEY="none", OPENAI_BASE_URL=judge.url
        )


def test_code_of_every_page_imports_names_that_exist() -> None:
    for page in PAGES:
        for block in blocks(page, "python"):
            for node in ast.walk(ast.parse(block)):
                if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(OWN):
                    module = importlib.import_module(str(node.module))
                    for alias in node.names:
                        assert hasattr(module, alias.name), f"{page.name}: {alias.name}"


def test_toml_of_every_page_is_a_file_of_settings() -> None:
    for page in PAGES:
        for block in blocks(page, "toml"):
            RagEvalConfig(**tomllib.loads(block))


def test_commands_of_every_page_take_the_arguments_shown() -> None:
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        shown = [
            line for block in blocks(page, "sh") for line in block.replace("\\\n", " ").split("\n")
        ]
        for line in [*shown, *re.findall(r"`(rag-eval-hooks [-a-z.\"][^`]*)`", text)]:
            words = [
                one for one in shlex.split(line, comments=True) if "=" not in one.split("-")[0]
            ]
            if words[:1] == ["rag-eval-hooks"]:
                # A command without arguments may be only named.
                arguments = words[1:] if len(words) > 2 else [*words[1:], "--help"]
                assert accepts(arguments), f"{page.name}: {line}"


def accepts(arguments: list[str]) -> bool:
    try:
        build_parser().parse_args(arguments)
    except SystemExit as ended:
        return not ended.code
    return True
