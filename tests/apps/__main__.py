"""Run applications and packages that others wrote, with capture on, and print what is right.

`make apps` runs all at pinned versions over sheets of a random seed; `ARGS="--seed 7"` repeats a
run, `ARGS=--newest` takes the newest versions.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import re
import shutil
import subprocess
import sys
import time
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

HERE: Final = Path(__file__).parent
ROOT: Final = HERE.parents[1]
GROUPS: Final = {
    "langchain": ("langchain_chains", "langchain_agents"),
    "llama-index": ("llama_index_engines",),
    "llama-index-server": ("llama_index_server",),
}
"""By name of the requirements: the modules whose applications run with them."""
ALONE: Final = "  # without what it requires"
Row = dict[str, Any]


def environment(group: str, *, newest: bool) -> Path:
    """Make the virtual environment of a group, once, and return its Python.

    Raises:
        subprocess.CalledProcessError: pip cannot install the packages.
    """
    wanted = (HERE / f"requirements-{group}.txt").read_text()
    if newest:
        wanted = re.sub(r"==\S+", "", wanted)
    venv = ROOT / "build" / "apps" / (f"{group}-newest" if newest else group)
    ours = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    done = venv / hashlib.sha256(f"{wanted}{ours}".encode()).hexdigest()
    python = venv / "bin" / "python"
    if newest or not done.exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", venv], check=True)
        pip = [str(python), "-m", "pip", "install", "-qq"]
        subprocess.run([*pip, "--upgrade", "pip"], check=True)
        lines = [line for line in wanted.splitlines() if line and not line.startswith("#")]
        alone = [line.removesuffix(ALONE) for line in lines if line.endswith(ALONE)]
        packages = [line for line in lines if not line.endswith(ALONE)]
        subprocess.run([*pip, "--no-compile", *packages, "--editable", f"{ROOT}[otel]"], check=True)
        if alone:
            subprocess.run([*pip, "--no-compile", "--no-deps", *alone], check=True)
        for hiding in venv.glob("lib/*/site-packages/tests"):
            shutil.rmtree(hiding)  # the tests of a package, which would be found before these
        done.touch()
    return python


def rows_of(group: str, python: Path, seed: int) -> list[Row]:
    """Run the applications of a group.

    Raises:
        subprocess.CalledProcessError: They cannot be imported.
    """
    command = [str(python), "-W", "ignore", "-m", "tests.apps.rows", str(seed), *GROUPS[group]]
    env = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'integrations'}"}
    with (python.parents[2] / f"{group}.log").open("w") as log:
        done = subprocess.run(
            command, cwd=ROOT, env=env, stdout=subprocess.PIPE, stderr=log, text=True, check=True
        )
    lines = [line for line in done.stdout.splitlines() if line.startswith('{"group"')]
    return [json.loads(line) for line in lines]


def print_table(rows: Sequence[Row]) -> None:
    """Print how many rows of each class of shape are right."""
    by_class: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        by_class[row["group"]].append(row)
    print("| class of shape | right | all |\n|---|---|---|")
    for name, members in [*by_class.items(), ("all", list(rows))]:
        right = sum(not row["wrong"] for row in members)
        print(f"| {name} | {right} | {len(members)} |")


def differences(rows: Iterable[Row], misses: dict[str, str]) -> list[str]:
    """Return the rows that are wrong and no allowed miss, and the misses that are right."""
    found: list[str] = []
    wrong: dict[str, bool] = {}
    for row in rows:
        wrong[row["name"]] = wrong.get(row["name"], False) or bool(row["wrong"])
        if row["wrong"] and row["name"] not in misses:
            found.append(f"{row['name']} ({row['way']}): {row['wrong']}")
    right = [name for name in misses if wrong.get(name) is False]
    return [*found, *(f"{name}: right, take it out of misses.toml" for name in right)]


def print_left_out(rows: Iterable[Row], always: Mapping[str, str]) -> None:
    """Print what cannot run for a reason of its own, each once."""
    for name, reason in ({row["name"]: row["left_out"] for row in rows} | dict(always)).items():
        print(f"left out: {name}: {reason}")


def main() -> int:
    """Run all groups; return 1 where an application that was right is wrong.

    Newest versions that cannot be imported together are left out, with the reason.
    """
    parser = argparse.ArgumentParser(prog="make apps", description=__doc__)
    parser.add_argument("groups", nargs="*", help=f"of {', '.join(GROUPS)}; all without")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    parser.add_argument("--newest", action="store_true", help="newest versions, not the pinned")
    options = parser.parse_args()
    if unknown := set(options.groups) - set(GROUPS):
        parser.error(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(GROUPS)}")
    began = time.monotonic()
    rows: list[Row] = []
    broken: list[str] = []
    for group in options.groups or GROUPS:
        try:
            python = environment(group, newest=options.newest)
            rows += rows_of(group, python, options.seed)
        except subprocess.CalledProcessError as error:
            broken.append(f"{group}: failed: {' '.join(map(str, error.cmd))}")
    left_out = [row for row in rows if options.newest and row["left_out"]]
    ran = [row for row in rows if row not in left_out]
    print_table(ran)
    known = tomllib.loads((HERE / "misses.toml").read_text())
    print_left_out(left_out, known["left_out"])
    found = [*broken, *differences(ran, known["misses"])]
    print("\n".join(found))
    installed = time.monotonic() - began - sum(row["seconds"] for row in rows)
    spent = sum(row["seconds"] for row in rows)
    print(f"seed {options.seed}; {spent:.0f} s, and {installed:.0f} s to install and import")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
