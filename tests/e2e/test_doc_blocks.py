"""Every block of code in the documents runs, or is read, by what it is written for."""

from __future__ import annotations

import ast
import builtins
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

import rag_eval_hooks
from rag_eval_hooks import RagEval, RagEvalConfig, results
from rag_eval_hooks.cli.main import build_parser
from tests.servers.judge_server import JudgeServer
from tests.servers.otlp_collector import OtlpCollector
from tests.support.scripts import environment, run_script
from tests.waiting import PATIENCE

ROOT = Path(__file__).parents[2]
PAGES = [*sorted((ROOT / "docs").rglob("*.md")), ROOT / "README.md"]
RUN_BY_OTHERS = {"promql", "text", "mermaid", "traceql"}
"""Queries of viewers, and what is only looked at."""
NOT_RUN_HERE = {
    "pip install": "needs a package index; the names of its extras are checked",
    "make": "makes environments, and is run by `.ci/run`; its target is checked",
    "cd examples/observability": "followed by `docker compose`",
    "docker compose": "needs Docker; its profiles are checked, `make viewers` reads its files",
    "phoenix serve": "a viewer: `make viewers` runs it",
    "mlflow server": "a viewer: `make viewers` runs it",
    "opentelemetry-instrument": "`make servers` runs it, before real servers",
    "python3 -m venv": "followed by `pip install`",
    ". .venv/bin/activate": "the same",
    "python examples": "`tests/e2e/test_examples.py` runs them",
    "celery": "needs a broker: `tests/integration/test_fleet.py` runs it",
    "rag-eval-hooks worker": "needs a broker, and runs for ever: `tests/integration/test_fleet.py`",
    "python -m benchmarks.house": "reads the whole source, for half a minute: `.ci/run` runs it",
    "python app.py --otlp": "that of `examples/observability`, which `make viewers` runs",
}
"""Beginnings of commands that are shown and not run by this test, with the reason."""
INTEGRATIONS = ("rag_eval_hooks_langchain", "rag_eval_hooks_llama_index")
TRACE = "ab" * 16
ROW = {
    "question": "How long is the guarantee?",
    "contexts": ["The guarantee covers 2 years."],
    "answer": "The guarantee covers 5 years.",
}
pytestmark = pytest.mark.skipif(not (ROOT / "docs").is_dir(), reason="not in a source tree")


def blocks(page: Path, language: str) -> list[str]:
    text = page.read_text(encoding="utf-8")
    return re.findall(rf"^```{language}[^\n]*\n(.*?)^```$", text, re.S | re.M)


def pages_with(language: str, *left_out: str) -> pytest.MarkDecorator:
    pages = [page for page in PAGES if page.is_file() and page.name not in left_out]
    found = [page for page in pages if blocks(page, language)]
    return pytest.mark.parametrize("page", found, ids=lambda page: str(page.relative_to(ROOT)))


def test_every_block_has_a_language_that_is_tested() -> None:
    """No block is of a language that nothing here reads."""
    known = {"python", "sh", "toml", "json"} | RUN_BY_OTHERS
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        opened = re.findall(r"^ *```(.*)$", text, re.M)[::2]
        assert set(opened) <= known, page.name
        assert not re.search(r"^ +```", text, re.M), f"{page.name}: an indented block is not run"


# The scripts of the first page are the examples, which `test_examples.py` runs.
@pages_with("python", "start.md")
def test_python_runs(page: Path, tmp_path: Path) -> None:
    """The blocks of a page run one after the other, in an application as its reader has one."""
    parts = blocks(page, "python")
    code = "\n".join(parts).replace("/var/lib/app", str(tmp_path))
    names = ", ".join(sorted(undefined(parts)))
    prelude = f"from tests.support.doc_names import {names}\n" if names else ""
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


def test_classes_that_pages_call_are_public() -> None:
    """Classes that pages call outside of a block are exported here, or by a known package."""
    others = {"CallbackManager", "ChatAnthropic", "ChatBedrockConverse", "ChatGoogleGenerativeAI"}
    packages = [rag_eval_hooks, *map(pytest.importorskip, INTEGRATIONS)]
    for page in PAGES:
        text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.S | re.M)
        called = set(re.findall(r"\b([A-Z][a-z]\w+)\(", " ".join(re.findall(r"`[^`]+`", text))))
        unknown = {name for name in called if not any(hasattr(one, name) for one in packages)}
        assert unknown <= others, page.name


def test_functions_of_results_are_public() -> None:
    """Each function that the page on results lists is exported."""
    page = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
    (table,) = re.findall(r"^\| .*`rag_eval_hooks.results` \|\n(.*?)\n\n", page, re.S | re.M)
    named = {
        name for row in table.split("\n") for name in re.findall(r"`(\w+)`", row.split("|")[3])
    }
    assert {"worst", "compare"} <= named <= set(results.__all__)


@pages_with("toml")
def test_toml_is_a_file_of_settings(page: Path) -> None:
    """Every table is one that a file of settings may hold."""
    for block in blocks(page, "toml"):
        RagEvalConfig(**tomllib.loads(block))


@pages_with("json")
def test_json_is_json(page: Path) -> None:
    """Every block of JSON can be read."""
    for block in blocks(page, "json"):
        json.loads(block)


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CONTRIBUTING.md"], ids=lambda page: page.stem)
def test_commands_exist(page: Path) -> None:
    """Every command of ours that a page shows, in a text too, takes the arguments shown."""
    for command in commands(page):
        check(command)


def commands(page: Path) -> Iterator[list[str]]:
    for line in lines(page):
        words = shlex.split(line, comments=True)
        yield [word for word in words if not re.fullmatch(r"[A-Z_]+=.*", word)]
    ours = r"`((?:rag-eval-hooks|make|pip install|python) [-a-z.\"][^`]*)`"
    yield from map(shlex.split, re.findall(ours, page.read_text(encoding="utf-8")))


def lines(page: Path) -> Iterator[str]:
    for block in blocks(page, "sh"):
        yield from re.split(r"\n| && ", block.replace("\\\n", " "))


@pages_with("sh")
def test_commands_run(page: Path, tmp_path: Path) -> None:
    """The commands of a page run one after the other, but for those that are listed above."""
    run = [line for line, words in zip(lines(page), commands(page), strict=False) if runs(words)]
    prepare(tmp_path)
    with OtlpCollector() as collector:
        script = re.sub(r"http://localhost:431\d", collector.url, "\n".join(run))
        done = subprocess.run(
            ["bash", "-e", "-c", script.replace("TRACE_ID", TRACE)],
            cwd=tmp_path,
            env=environment(PATH=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"),
            capture_output=True,
            text=True,
            timeout=3 * PATIENCE,
        )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"


def runs(words: list[str]) -> bool:
    command = shlex.join(words)
    return not any(re.match(rf"{re.escape(one)}([ /]|$)", command) for one in NOT_RUN_HERE)


def prepare(folder: Path) -> None:
    """Write the files that the commands name: an application, its results, labelled rows."""
    shutil.copy(ROOT / "examples" / "dataset_gate.py", folder / "app.py")
    rows = ({**ROW, "answer": f"It covers {years} years."} for years in (2, 5) * 10)
    labelled = ({**row, "labels": {"hallucinated": "5" in row["answer"]}} for row in rows)
    text = "".join(f"{json.dumps(row)}\n" for row in labelled)
    (folder / "labelled.jsonl").write_text(text, encoding="utf-8")
    for name in ("benchmarks", "integrations", "rag_eval_hooks"):
        (folder / name).symlink_to(ROOT / name)
    with RagEval("ragas", sinks=[f"jsonl:{folder / 'scores.jsonl'}"]) as evals:
        evals.offer({**ROW, "trace_id": TRACE})


def check(words: list[str]) -> None:
    """Check a command line that is ours, and what is ours in those of others."""
    checks = {
        "rag-eval-hooks": check_arguments,
        "make": check_targets,
        "pip": check_extras,
        "python": check_file,
        "docker": check_profiles,
    }
    if words and words[0] in checks:
        checks[words[0]](words[1:])


def check_arguments(words: list[str]) -> None:
    try:
        # A command without arguments may be only named.
        build_parser().parse_args(words if len(words) > 1 else [*words, "--help"])
    except SystemExit as ended:
        if ended.code:
            pytest.fail(f"not accepted: {shlex.join(words)}")


def check_targets(words: list[str]) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = [word for word in words if "=" not in word]
    assert all(re.search(rf"^{target}:", makefile, re.M) for target in targets), words


def check_extras(words: list[str]) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for extras in re.findall(r"(?:rag-eval-hooks|\.)\[([\w,-]+)\]", " ".join(words)):
        assert set(extras.split(",")) <= project["optional-dependencies"].keys(), words


def check_file(words: list[str]) -> None:
    if words[0] == "-m":
        assert not words[1].startswith(("benchmarks", "tests")) or find_spec(words[1]), words
    else:
        assert "/" not in words[0] or (ROOT / words[0]).is_file(), words


def check_profiles(words: list[str]) -> None:
    compose = (ROOT / "examples/observability/docker-compose.yml").read_text(encoding="utf-8")
    known = set(re.findall(r"profiles: \[(\w+)\]", compose))
    assert {words[at + 1] for at, word in enumerate(words) if word == "--profile"} <= known
