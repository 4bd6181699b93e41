"""`rag-eval-hooks doctor` on what waits on disk: spools, golden questions, a budget."""

from __future__ import annotations

import json
from pathlib import Path

from rag_eval_hooks.incidents import Incidents
from rag_eval_hooks.judges.calls.budget import Budget
from rag_eval_hooks.judges.calls.budget_store import SqliteStore
from tests.support.doctor import doctor, left_in_a_spool, results


def test_a_spool_is_looked_at(tmp_path: Path) -> None:
    """One that is whole and private is well, with what is in it; nothing of it is changed."""
    folder = tmp_path / "spool"
    results(tmp_path, RAG_EVAL_SPOOL=str(folder))
    assert not folder.exists()
    left_in_a_spool(folder)
    (path,) = folder.glob("*.sqlite")
    before = path.read_bytes()
    code, text = doctor(tmp_path, RAG_EVAL_SPOOL=str(folder))
    assert code == 0
    assert f"ok       spool: {folder} is whole, 1 samples wait in it" in text
    assert "MB free on its disk" in text
    assert path.read_bytes() == before


def test_a_damaged_spool_has_failed(tmp_path: Path) -> None:
    """A page that was overwritten is found, and it is said what to do."""
    folder = tmp_path / "spool"
    left_in_a_spool(folder, metadata={"long": "x" * 100_000})
    (path,) = folder.glob("*.sqlite")
    with path.open("r+b") as file:
        for page in range(1, path.stat().st_size // 4096):
            file.seek(4096 * page + 8)
            file.write(b"\xff" * 200)
    code, text = doctor(tmp_path, RAG_EVAL_SPOOL=str(folder))
    assert code == 1
    assert "failed   spool:" in text
    assert "renames it" in text or "renamed by the next process" in text


def test_golden_questions_are_counted(tmp_path: Path) -> None:
    """Equal questions are told, and whether they have different answers."""
    path = tmp_path / "golden.jsonl"
    rows = [("When?", "At nine."), ("when? ", "At nine."), ("Where?", "Here.")]
    path.write_text("".join(json.dumps({"question": q, "reference": r}) + "\n" for q, r in rows))
    _code, told = results(tmp_path, RAG_EVAL_REFERENCES=str(path), RAG_EVAL_EMBEDDER="none")
    assert told["references"]["figures"] == {"questions": 2, "duplicates": 1}
    assert told["references"]["status"] == "warning"
    assert "another answer" not in told["references"]["text"]
    with path.open("a") as file:
        file.write(json.dumps({"question": "WHERE?", "reference": "There."}) + "\n")
    _code, told = results(tmp_path, RAG_EVAL_REFERENCES=str(path), RAG_EVAL_EMBEDDER="none")
    assert "1 have another answer" in told["references"]["text"]
    code, told = results(
        tmp_path,
        RAG_EVAL_REFERENCES=str(path),
        RAG_EVAL_REFERENCES_THRESHOLD="0.9",
        RAG_EVAL_EMBEDDER="none",
    )
    assert code == 1
    assert "embedder" in told["references"]["advice"]


def test_a_budget_is_looked_at(tmp_path: Path) -> None:
    """A budget's file is reported with what is spent; a file of another program is a failure."""
    path = tmp_path / "budget.db"
    settings = {"RAG_EVAL_BUDGET": f"calls_per_day=5,path={path}"}
    _code, told = results(tmp_path, RAG_EVAL_EMBEDDER="none", **settings)
    assert "not there yet" in told["budget"]["text"]
    assert not path.exists()
    shared = Budget({"calls_per_day": 5}, SqliteStore(path), incidents=Incidents())
    shared.reserve(1).settle(1, 1)
    shared.close()
    code, told = results(tmp_path, RAG_EVAL_EMBEDDER="none", **settings)
    assert code == 0
    assert "1 of 5 calls this day" in told["budget"]["text"]
    path.write_text("no database" * 100)
    code, told = results(tmp_path, RAG_EVAL_EMBEDDER="none", **settings)
    assert code == 1
    assert "no call is sent" in told["budget"]["text"]
