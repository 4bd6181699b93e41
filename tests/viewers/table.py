"""Prints where each score of one sample is seen: `python -m tests.viewers.table`."""

from __future__ import annotations

import json
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

from tests.viewers.conftest import demo_in_mlflow, demo_in_phoenix
from tests.viewers.demo import Scored, run_demo
from tests.viewers.jaeger import JaegerSpan, jaeger_spans
from tests.viewers.mlflow import mlflow
from tests.viewers.phoenix import phoenix

__all__: list[str] = []

Column = dict[str, float | None]


def main() -> None:
    """Runs the demo in each viewer and prints what is read back."""
    columns: dict[str, tuple[Scored, Column]] = {}
    with tempfile.TemporaryDirectory() as made:
        folders = [Path(made) / name for name in ("phoenix", "mlflow", "d1", "d2", "d3")]
        for folder in folders:
            folder.mkdir()
        with phoenix(folders[0]) as in_phoenix:
            one = _bad(demo_in_phoenix(in_phoenix, folders[2]))
            tree = json.loads(in_phoenix.spans()[one.span_id]["attributes"])["rag"]["eval"]
            columns["Phoenix: RAG span"] = one, {n: _leaf(tree, n) for n in one.scores}
            notes = in_phoenix.annotations(one.span_id)
            told: Column = {name: note["result"]["score"] for name, note in notes.items()}
            columns["Phoenix: annotation"] = one, told
        with mlflow(folders[1]) as in_mlflow:
            one = _bad(demo_in_mlflow(in_mlflow, folders[3]))
            trace = in_mlflow.traces()[f"tr-{one.trace_id}"]
            span = next(span for span in trace["spans"] if span["id"] == one.span_id)
            on_span = {n: span["attributes"].get(f"rag.eval.{n}.score") for n in one.scores}
            columns["MLflow: RAG span"] = one, on_span
            given = {note["name"]: note["value"] for note in trace["assessments"]}
            columns["MLflow: assessment"] = one, given
        one = _bad(run_demo(folders[4]))
        columns["Jaeger: tag"] = one, _jaeger(folders[4], one)
    _print(columns)
    equal = all(column == one.scores for one, column in columns.values())
    print("\nall equal" if equal else "\nNOT all equal")
    sys.exit(not equal)


def _bad(scored: list[Scored]) -> Scored:
    return next(one for one in scored if one.sample["question_id"] == "q14")


def _leaf(tree: dict[str, dict[str, dict[str, float]]], name: str) -> float | None:
    suite, metric = name.split(".")
    return tree.get(suite, {}).get(metric, {}).get("score")


def _jaeger(folder: Path, one: Scored) -> Column:
    spans = {span.span_id: span for span in _spans(folder)}
    tags: dict[str, tuple[str, float | None]] = defaultdict(lambda: ("", None))
    tags.update(spans[one.span_id].tags)
    return {name: tags[f"rag.eval.{name}.score"][1] for name in one.scores}


def _spans(folder: Path) -> list[JaegerSpan]:
    lines = (folder / "demo-output" / "traces.jsonl").read_text(encoding="utf-8").splitlines()
    return list(jaeger_spans(map(json.loads, lines)))


def _print(columns: dict[str, tuple[Scored, Column]]) -> None:
    names = list(next(iter(columns.values()))[0].scores)
    print("| score | scored |" + "".join(f" {title} |" for title in columns))
    print("|---|---|" + "---|" * len(columns))
    for name in names:
        cells = [f"{next(iter(columns.values()))[0].scores[name]:.4g}"]
        for one, column in columns.values():
            value = column.get(name)
            same = value == one.scores[name]
            cells.append("absent" if value is None else f"{value:.4g}" + ("" if same else " !"))
        print(f"| {name} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
