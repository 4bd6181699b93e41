"""TraceQL of the docs and of the dashboard, by Grafana's own grammar.

`npm install @grafana/lezer-traceql`; RAGEVAL_TRACEQL names its folder `node_modules`.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from rag_eval_hooks import semconv
from rag_eval_hooks.metrics import ALL_METRICS
from tests.viewers.processes import ROOT

PAGE = (ROOT / "docs/viewers/tempo.md").read_text("utf-8")
DASHBOARD = ROOT / "examples/observability/grafana/dashboards/rag-quality.json"
PARSE = """
import {createRequire} from "node:module";
const {parser} = createRequire(process.argv[1] + "/")("@grafana/lezer-traceql");
const queries = JSON.parse(process.argv[2]);
const read = (query) => {
  try { parser.configure({strict: true}).parse(query); return true } catch { return false }
};
console.log(JSON.stringify(queries.map(read)));
"""


def queries() -> list[str]:
    """Return the queries of the page's table and code, and of the dashboard's panels for Tempo."""
    rows = [cell.replace(r"\|", "|") for cell in re.findall(r"^\|[^|]+\| `(.+)` \|$", PAGE, re.M)]
    code = re.findall(r"^\{.+$", PAGE, re.M)
    panels = json.loads(DASHBOARD.read_text("utf-8"))["panels"]
    targets = [target for panel in panels for target in panel["targets"]]
    asked = [one["query"] for one in targets if one["datasource"]["type"] == "tempo"]
    assert rows
    assert code
    assert asked
    return [*rows, *code, *asked]


def test_every_query_parses() -> None:
    """Each is TraceQL; without its last bracket none is."""
    modules = Path(os.environ.get("RAGEVAL_TRACEQL", ROOT / "node_modules")).resolve()
    if shutil.which("node") is None or not (modules / "@grafana/lezer-traceql").exists():
        pytest.skip("npm install @grafana/lezer-traceql; RAGEVAL_TRACEQL may name node_modules")
    whole = queries()
    broken = [query[: max(map(query.rindex, "})" if ")" in query else "}"))] for query in whole]
    done = subprocess.run(
        [
            *("node", "--input-type=module", "-e", PARSE),
            *("--", str(modules), json.dumps([*whole, *broken])),
        ],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert json.loads(done.stdout) == [True] * len(whole) + [False] * len(broken)


def test_every_attribute_is_one_of_ours() -> None:
    """A query reads only attributes that spans have."""
    known = {value for value in vars(semconv).values() if isinstance(value, str)}
    known |= {semconv.eval_key(metric.id, "score") for metric in ALL_METRICS}
    for query in queries():
        names = set(re.findall(r"span\.([\w.]+)", query))
        assert names, query
        assert names <= known
