"""Source archives of the frameworks on PyPI, and an environment to run the tests of each."""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
import tarfile
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
CACHE: Final = ROOT / "build" / "conformance"


@dataclass(frozen=True)
class Suite:
    name: str
    version: str
    tests: str = "tests/unit_tests"
    sockets: bool = False


SUITES: Final = (
    Suite("langchain-core", "1.7.2"),
    Suite("langchain", "1.4.7"),
    Suite("langchain-classic", "1.0.8"),
    Suite("langgraph", "1.2.22", tests="tests", sockets=True),
)
PINNED: Final = [f"{suite.name}=={suite.version}" for suite in SUITES]


def unpacked(suite: Suite, *, newest: bool) -> Path:
    wanted = suite.name if newest else f"{suite.name}=={suite.version}"
    folder = CACHE / ("newest" if newest else "pinned") / suite.name
    if not (archives := list(folder.glob("*.tar.gz"))) or newest:
        for old in archives:
            old.unlink()
        pip = [sys.executable, "-m", "pip", "download", "-qq", "--no-deps"]
        checked([*pip, "--no-binary", suite.name, "--dest", str(folder), wanted])
    (archive,) = folder.glob("*.tar.gz")
    with tarfile.open(archive) as tar:
        tar.extractall(folder, filter="data")
    return folder / archive.name.removesuffix(".tar.gz")


def environment(suite: Suite, source: Path, *, newest: bool) -> Path:
    """Make a virtual environment for a suite, once, and return its Python.

    What the tests want has the version of their authors' lock file: snapshots depend on it.
    """
    venv = source.parent / "venv"
    python = venv / "bin" / "python"
    pins = source.parent / "constraints.txt"
    others = [] if newest else PINNED
    pins.write_text("\n".join([*locked(source, leave={s.name for s in SUITES}), *others]) + "\n")
    ours = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    done = venv / hashlib.sha256(f"{pins.read_text()}{ours}".encode()).hexdigest()
    if not done.exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", venv], check=True)
        pip = [str(python), "-m", "pip", "install", "-qq"]
        checked([*pip, "--upgrade", "pip"])
        wanted = [f"{suite.name}=={source.name.rsplit('-', 1)[1]}", "--group"]
        wanted += [f"{source / 'pyproject.toml'}:test", "--editable", f"{ROOT}[instrument]"]
        try:
            checked([*pip, "--no-compile", "--constraint", str(pins), *wanted])
        except subprocess.CalledProcessError:
            if not newest:
                raise
            # A lock file may name what an index does not have yet, or has no more.
            checked([*pip, "--no-compile", *wanted])
        done.touch()
    return python


def checked(command: list[str]) -> None:
    subprocess.run(command, check=True, stderr=subprocess.PIPE, text=True)


def locked(source: Path, leave: set[str]) -> list[str]:
    """Return the versions in an archive's lock file of what the framework and its tests want.

    Where the framework is built on another one, that one's version here may want other versions
    than the lock file has: then only what the tests want.
    """
    project = tomllib.loads((source / "pyproject.toml").read_text())
    dependencies = names(project["project"]["dependencies"])
    wanted = names(project["dependency-groups"]["test"])
    wanted |= set() if dependencies & leave else dependencies
    lock = tomllib.loads((source / "uv.lock").read_text())
    found: dict[str, list[str]] = {}
    for package in lock["package"]:
        if "registry" in package["source"] and package["name"] in wanted - leave:
            found.setdefault(package["name"], []).append(package["version"])
    # Several versions depend on the Python that runs.
    return [f"{name}=={versions[0]}" for name, versions in found.items() if len(versions) == 1]


def names(requirements: Sequence[object]) -> set[str]:
    found = (re.match(r"[\w.-]+", text) for text in requirements if isinstance(text, str))
    return {re.sub(r"[-_.]+", "-", match[0]).lower() for match in found if match}
