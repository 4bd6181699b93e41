"""Every check of the project as a session; `nox -l` lists them.

Arguments after `--` go to what a session runs: `nox -s test -- tests/golden`.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import nox

ROOT = Path(__file__).parent
BUILD = ROOT / "build"
SHARED = ROOT / ".venv"
"""The environment of development, which most sessions share."""
TORCH = "torch==2.13.0"
"""Installed before any package that needs torch, so that no other build is pulled in."""
UV = (sys.executable, "-m", "uv")
"""Installs ten times as fast as pip. Sessions with torch use pip, for its configured indexes."""
QUICK = ("-n", "3", "--dist", "worksteal", "--ignore=tests/viewers", "--durations=40")
"""More workers than cores: many tests wait for a time-out or a process."""
QUIETLY = ("-W", "ignore::DeprecationWarning", "-W", "ignore::UserWarning")
LANGCHAIN = ("tests/integration/test_langchain.py", "tests/integration/test_langchain_capture.py")
INSTALLED = (
    *("tests/golden", "tests/e2e/test_examples.py", "tests/unit/test_score_attributes.py"),
    *("tests/integration/test_langchain.py", "tests/integration/test_llama_index.py"),
)
"""Where files of the package are read, and the frameworks: the rest is equal in the source tree."""
APPS = ["langchain", "llama-index", "llama-index-server"]
RUNNERS = ("hypothesis", "pytest", "pytest-asyncio", "starlette", "uvicorn")
BENCHMARKS = (
    *("handler_overhead", "llama_index_overhead", "judge_calls", "sink_throughput", "kill9"),
    "interval_coverage",
)

nox.needs_version = ">=2024.10.9"
nox.options.sessions = ["lint", "types", "test"]
nox.options.reuse_venv = "yes"
nox.options.default_venv_backend = "uv"


@nox.session(python=False)
def lint(session: nox.Session) -> None:
    """Check style and import contracts."""
    run(session, "ruff", "check", ".")
    run(session, "ruff", "format", "--check", ".")
    run(session, "lint-imports")


@nox.session(python=False)
def types(session: nox.Session) -> None:
    """Check types, strictly."""
    run(session, "mypy", *session.posargs)


@nox.session(python=False)
def test(session: nox.Session) -> None:
    """Run the quick suite: every law."""
    run(session, "pytest", *QUICK, *session.posargs)


@nox.session(name="test-long", python=False)
def long(session: nox.Session) -> None:
    """Run the long tests at full size: kills in rounds, floods, worlds of processes."""
    run(session, "pytest", *QUICK, "--long", "-m", "long", *session.posargs)


@nox.session(python=False)
def attacks(session: nox.Session) -> None:
    """Attack at full size: interruptions, hostile objects, corrupt replies, outlets of text."""
    run(session, "pytest", "--long", "tests/attacks", *session.posargs)


@nox.session(name="test-all", python=False)
def everything(session: nox.Session) -> None:
    """Run all tests at full size, the drawn ones with more draws."""
    run(session, "pytest", *QUICK, "--long", *session.posargs)


@nox.session(python=["3.11", "3.12", "3.13", "3.14"], venv_backend="virtualenv")
def tests(session: nox.Session) -> None:
    """Run the quick suite on one Python."""
    run(session, "pytest", *QUICK, *session.posargs)
    run(session, "python", "docs/compatibility.py", session.name)


@nox.session
@nox.parametrize("framework", ["langchain", "llama-index"], ids=["langchain", "llama-index"])
def oldest(session: nox.Session, framework: str) -> None:
    """Run the capture matrix on the oldest versions that are served."""
    session.install("-q", "-r", f"tests/oldest-{framework}.txt")
    files = LANGCHAIN if framework == "langchain" else llama_index_tests()
    matrix(session, "tests/matrix", *files, *session.posargs)


@nox.session
def middle(session: nox.Session) -> None:
    """Run agents, workflows and threads on a llama-index-core between oldest and newest."""
    version = os.environ.get("RAGEVAL_MIDDLE_VERSION", "0.13.6")
    frameworks = (f"llama-index-core=={version}", "langchain", "langgraph")
    session.install("-q", *frameworks, "-r", "tests/middle-llama-index.txt")
    files = ("tests/matrix", "tests/integration/test_many.py")
    matrix(session, *files, "-k", "not langchain and (agents or workflows or thread) or many")


@nox.session
def newest(session: nox.Session) -> None:
    """Run the capture matrix on the newest versions of both frameworks."""
    frameworks = ("langchain", "langchain-classic", "langgraph", "llama-index-core")
    session.install("-q", "-r", "tests/middle-llama-index.txt")
    session.install("-q", "--upgrade", *frameworks)
    matrix(session, "tests/matrix", *LANGCHAIN, *llama_index_tests(), *session.posargs)


@nox.session
def coexistence(session: nox.Session) -> None:
    """Test the installed wheel together with other instrumentors, which patch the same places."""
    extras = "langchain,llama-index,instrument,openai"
    install_wheel(session, extras, "--group", "coexistence", *RUNNERS)
    # Each is loaded in a dozen processes: the nightly run tests "traceloop or official".
    pair = os.environ.get("RAGEVAL_INSTRUMENTORS", "openinference or langfuse")
    outside(session, "--long", "tests/coexistence", "-k", f"{pair} or llama")


@nox.session
def providers(session: nox.Session) -> None:
    """Test judges of other providers by their clients, and redaction by a real Presidio."""
    extras = "langchain,instrument,openai,privacy"
    groups = ("--group", "judges", "--group", "presidio")
    install_wheel(session, extras, *groups, *RUNNERS)
    files = ("tests/integration/test_provider_judges.py", "tests/redaction/test_presidio.py")
    outside(session, "-rs", *files)


@nox.session(python=False)
def conformance(session: nox.Session) -> None:
    """Run the frameworks' own unit tests, without and with capture."""
    run(session, "python", "-m", "tests.conformance", *session.posargs)


@nox.session
@nox.parametrize("group", APPS, ids=APPS)
def apps(session: nox.Session, group: str) -> None:
    """Run applications that others wrote, with capture on; `-- --newest`: their newest versions."""
    wanted = Path(f"tests/apps/requirements-{group}.txt").read_text()
    arguments = [each for each in session.posargs if each != "--newest"]
    if "--newest" in session.posargs:
        wanted = re.sub(r"==\S+", "", wanted)
    pins = Path(session.create_tmp()) / "pins.txt"
    pins.write_text(wanted)
    session.install("-q", "-r", str(pins), *RUNNERS, "--editable", ".[otel]")
    file = f"tests/apps/{group.removesuffix('-server').replace('-', '_')}.py"
    paths = {"PYTHONPATH": f".{os.pathsep}integrations"}
    session.run("python", "-m", "pytest", "-q", "-rs", "-W", "ignore", file, *arguments, env=paths)


@nox.session(python=False)
def servers(session: nox.Session) -> None:
    """Test zero code under real servers; `--long` adds Streamlit and Chainlit."""
    ours = wheel(session)
    places: dict[str, str] = {}
    for name in ("servers", "chainlit") if "--long" in session.posargs else ("servers",):
        made = environment(session, name, f"{ours}[langchain,instrument]", "--group", name)
        again = ("--python", str(made), "--reinstall", "--no-deps", ours)
        session.run_install(*UV, "pip", "install", "-q", *again, external=True)
        places[f"RAGEVAL_{name.upper()}"] = str(made)
    run(session, "pytest", "tests/zero_code", *session.posargs, variables=places)


@nox.session(python=False)
def viewers(session: nox.Session) -> None:
    """Look at scores in a real Phoenix, MLflow, Chromium and Prometheus."""
    places = {name: environment(session, name, *packages) for name, packages in VIEWERS.items()}
    found = {
        "RAGEVAL_PHOENIX": str(places["phoenix"] / "bin" / "phoenix"),
        "RAGEVAL_MLFLOW": str(places["mlflow"] / "bin" / "mlflow"),
    }
    run(session, "pytest", "tests/viewers", *session.posargs, groups=["viewers"], variables=found)


@nox.session
@nox.parametrize("framework", ["langchain", "llama-index"], ids=["langchain", "llama-index"])
def demo(session: nox.Session, framework: str) -> None:
    """Run the demo; `-- --viewer phoenix` shows it in Phoenix."""
    session.install("-q", "--editable", f".[{framework},otel,report,platforms]")
    more = list(session.posargs)
    if "phoenix" in more:
        made = environment(session, "phoenix", *VIEWERS["phoenix"])
        more += ["--viewer-command", str(made / "bin" / "phoenix")]
    # Ctrl-C reaches the demo, too, which stops the viewer first.
    patience = {"interrupt_timeout": 20.0, "terminate_timeout": 20.0}
    session.run("python", "-m", "examples.demo", "--framework", framework, *more, **patience)


@nox.session
def docs(session: nox.Session) -> None:
    """Build the site, follow its links, check spelling and prose."""
    session.install("-q", "--group", "docs")
    session.run("mkdocs", "build", "--quiet", "--strict", env={"NO_MKDOCS_2_WARNING": "1"})
    session.run("codespell", "README.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs")
    session.run("python", "tools/prose.py")


@nox.session(python=False)
def dist(session: nox.Session) -> None:
    """Build and check the release, its bill of materials, and its typed interface."""
    place = develop(session, "dist")
    shutil.rmtree("dist", ignore_errors=True)
    run(session, "python", "-m", "build", "--outdir", "dist", groups=["dist"])
    built = sorted(map(str, Path("dist").glob("*")))
    run(session, "twine", "check", "--strict", *built)
    run(session, "check-wheel-contents", *(name for name in built if name.endswith(".whl")))
    run(session, "pyright", "--pythonpath", f"{place}/bin/python", "tests/typing/api.py")
    bill = ("--pyproject", "pyproject.toml", "--output-file", "dist/rag_eval_hooks.cdx.json")
    run(session, "cyclonedx-py", "environment", str(place), *bill)


@nox.session
def bare(session: nox.Session) -> None:
    """Import the wheel without any extra: quickly, and without a framework."""
    install_wheel(session, "")
    session.chdir(session.create_tmp())  # Away from the sources.
    session.run("rag-eval-hooks", "--version")
    session.run("python", "-W", "error", str(ROOT / ".ci" / "bare_import.py"))


@nox.session(venv_backend="virtualenv")
def installed(session: nox.Session) -> None:
    """Test the wheel with all extras, outside the source tree."""
    session.install("-q", TORCH)
    install_wheel(session, "all", "--group", "test")
    outside(session, *INSTALLED)
    session.run("python", str(ROOT / "docs" / "compatibility.py"), session.name)


@nox.session(python=False)
def bench(session: nox.Session) -> None:
    """Print the benchmarks' tables and write docs/benchmarks.md; `--quick`: in small, no page."""
    python = ("python", "-m")
    develop(session, "bench")
    run(session, *python, "benchmarks.house")
    quick = "--quick" in session.posargs
    chosen = [part for part in session.posargs if part != "--quick"]
    for part in chosen or BENCHMARKS:
        small = SMALL.get(part, ()) if quick else ()
        rows = ("--json", f"build/bench/{part}.json")
        run(session, *python, f"benchmarks.{part}", *small, *rows)
    if not quick and not chosen:
        run(session, *python, "benchmarks.peers", "--page", "--json", "build/bench/peers.json")


VIEWERS = {"phoenix": ("arize-phoenix>=20",), "mlflow": ("mlflow>=3.6",)}
SMALL = {
    "handler_overhead": ("--rounds", "5"),
    "llama_index_overhead": ("--rounds", "5"),
    "judge_calls": ("--samples", "10"),
    "sink_throughput": ("--samples", "50"),
    "kill9": ("--kills", "5"),
    "interval_coverage": ("--runs", "5", "--days", "1"),
}


def develop(session: nox.Session, *groups: str) -> Path:
    """Install the project with all extras and tools, torch first; nothing if nothing changed.

    Returns:
        The session's environment, else the shared environment.
    """
    place = Path(getattr(session.virtualenv, "location", None) or SHARED)
    done = place / "-".join((".installed", *groups))
    if done.exists() and done.stat().st_mtime > (ROOT / "pyproject.toml").stat().st_mtime:
        return place
    if not (place / "bin").exists():
        session.run_install(sys.executable, "-m", "venv", str(place))
    pip = (str(place / "bin" / "pip"), "install", "-q")
    wanted = [part for group in ("test", "lint", *groups) for part in ("--group", group)]
    session.run_install(*pip, "--upgrade", "pip", external=True)
    session.run_install(*pip, TORCH, external=True)
    session.run_install(*pip, "--editable", ".[all]", *wanted, external=True)
    done.touch()
    return place


def run(
    session: nox.Session,
    program: str,
    *arguments: str,
    groups: Sequence[str] = (),
    variables: Mapping[str, str] | None = None,
) -> None:
    """Run a program of the environment of development, which has what the groups name."""
    place = develop(session, *groups) / "bin"
    path = {"PATH": f"{place}{os.pathsep}{os.environ['PATH']}"}
    # Without compiled files, every worker rewrites and compiles all tests anew.
    path["PYTHONDONTWRITEBYTECODE"] = ""
    session.run(str(place / program), *arguments, env={**path, **(variables or {})}, external=True)


def environment(session: nox.Session, name: str, *packages: str) -> Path:
    """Make an environment besides the session's own, once, and return its folder."""
    place = BUILD / "environments" / name
    done = place / ".installed"
    if not done.exists() or done.stat().st_mtime < (ROOT / "pyproject.toml").stat().st_mtime:
        made = ("venv", "-q", "--clear", "--python", sys.executable, str(place))
        session.run_install(*UV, *made, external=True)
        install = ("pip", "install", "-q", "--python", str(place))
        session.run_install(*UV, *install, *packages, external=True)
        done.touch()
    return place


def matrix(session: nox.Session, *arguments: str) -> None:
    """Run tests of the source tree with the session's versions, and write these to the docs."""
    paths = {"PYTHONPATH": f".{os.pathsep}integrations"}
    session.run("python", "-m", "pytest", "-q", *QUIETLY, *arguments, env=paths)
    session.run("python", "docs/compatibility.py", session.name)


def outside(session: nox.Session, *arguments: str) -> None:
    """Run tests in a folder that has none of the package's sources, so that the wheel is tested."""
    folder = Path(session.create_tmp())
    for name in ("tests", "examples", "benchmarks"):
        shutil.rmtree(folder / name, ignore_errors=True)
        shutil.copytree(ROOT / name, folder / name)
    for name in ("pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, folder)
    session.chdir(folder)
    session.run("python", "-m", "pytest", "--import-mode=importlib", "-q", *arguments)


def install_wheel(session: nox.Session, extras: str, *others: str) -> None:
    """Install a wheel of the sources as they are, whatever was installed before."""
    ours = wheel(session)
    session.install("-q", f"{ours}[{extras}]" if extras else ours, *others)
    session.install("-q", "--force-reinstall", "--no-deps", ours)


def wheel(session: nox.Session) -> str:
    """Return the path of a wheel of the sources as they are."""
    folder = BUILD / "wheel" / session.name
    shutil.rmtree(folder, ignore_errors=True)
    build = ("build", "-q", "--wheel", "--out-dir", str(folder), str(ROOT))
    session.run_install(*UV, *build, external=True)
    return str(next(folder.glob("*.whl")))


def llama_index_tests() -> list[str]:
    """Return the files that test LlamaIndex alone."""
    return sorted(map(str, Path("tests/integration").glob("test_llama_index*.py")))
