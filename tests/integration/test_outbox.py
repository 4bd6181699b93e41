"""Laws of the outbox under kills, freezes and full disks: no loss, and nothing counted twice."""

from __future__ import annotations

import json
import os
import resource
import signal
import sqlite3
import sys
import tempfile
import time
from collections import Counter
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from rag_eval_hooks.delivery import outbox, outbox_file
from rag_eval_hooks.delivery.outbox import Outbox
from rag_eval_hooks.delivery.outbox_file import EVALUATE, FEEDBACK, Job, OutboxFile, read_counts
from rag_eval_hooks.incidents import Incidents
from tests.support.size import fixed_machine
from tests.waiting import PATIENCE, until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="forks, and limits of a file")
SINK = "sink"


class Node:
    def __init__(self, folder: Path) -> None:
        commands, self._commands = os.pipe()
        self._answers, answers = os.pipe()
        self.is_frozen = False
        self.pid = os.fork()
        if self.pid == 0:
            try:
                _serve(folder, commands, answers)
            finally:
                os._exit(0)
        os.close(commands)
        os.close(answers)
        self._reader = os.fdopen(self._answers)

    def ask(self, *command: Any) -> Any:
        os.write(self._commands, (json.dumps(command) + "\n").encode())
        return json.loads(self._reader.readline())

    def send(self, sign: signal.Signals) -> None:
        os.kill(self.pid, sign)
        self.is_frozen = sign == signal.SIGSTOP

    def kill(self) -> None:
        self.send(signal.SIGKILL)
        os.waitpid(self.pid, 0)
        self._reader.close()
        os.close(self._commands)


def _serve(folder: Path, commands: int, answers: int) -> None:
    # Leases of a second would be waited for at each kill.
    outbox_file.LEASE_S, outbox._POLL_S = 0.5, 0.05  # type: ignore[misc]
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    own = Outbox(folder, max_bytes=10_000_000, incidents=Incidents())
    held: dict[str, list[Job]] = {EVALUATE: [], SINK: []}

    def take(name: str, job: Job) -> bool:
        held[name].append(job)
        return True

    for name in held:
        own.consume(name, lambda: 5, partial(take, name))
    own.start()
    for line in os.fdopen(commands):
        kind, *rest = json.loads(line)
        os.write(answers, (json.dumps(_obey(own, held, kind, *rest)) + "\n").encode())


def _obey(own: Outbox, held: dict[str, list[Job]], kind: str, *rest: Any) -> Any:
    if kind == "put":
        text = json.dumps({"sample": {"sample_id": rest[0]}})
        job = Job({EVALUATE}, lambda: text)
        own.put(job)
        own.drain(PATIENCE)
        held[EVALUATE].append(job)
        return job.is_stored
    if kind == "fill":
        resource.setrlimit(resource.RLIMIT_FSIZE, (rest[0], resource.RLIM_INFINITY))
        return True
    if kind == "close":
        own.close(PATIENCE)
        return True
    jobs = held[rest[0]]
    if not jobs:
        return None
    job = jobs.pop(0)
    if kind == "retry":
        if not own.leave(job, *job.consumers):
            jobs.append(job)
        return None
    return _end(own, held, rest[0], job)


def _end(own: Outbox, held: dict[str, list[Job]], consumer: str, job: Job) -> list[Any]:
    then, text = [SINK] if consumer == EVALUATE else [], job.encode()
    name = json.loads(text)["sample"]["sample_id"]
    is_known = job.row is not None
    try:
        ended = own.end(job, consumer, then, lambda: text)
        is_ours = ended.result(outbox.PATIENCE_S)
    except TimeoutError:
        # A frozen neighbor can hold the file: the pipeline goes on without it, too.
        is_ours, is_known = True, False
    if is_ours and then:
        held[SINK].append(job)
    # While the disk fails nobody waits for it: that the job is ended may not be on disk.
    return [name, is_ours, is_known and not own.is_stalled]


ERRORS = st.sampled_from([ValueError, KeyError, RecursionError, UnicodeEncodeError])


@pytest.mark.parametrize("disk", ["unwritable", "full", "fine"])
@settings(max_examples=25, deadline=None, derandomize=True)
@given(
    puts=st.lists(
        st.tuples(st.booleans(), st.none() | ERRORS, st.booleans(), st.booleans()),
        min_size=1,
        max_size=12,
    ),
    most=st.sampled_from([1, 3, 256]),
)
def test_outbox_counts_each_job_that_it_cannot_store_once(
    disk: str, puts: list[tuple[bool, type[Exception] | None, bool, bool]], most: int
) -> None:
    is_fine = disk == "fine"
    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        patch.setattr(outbox, "_MOST_JOBS", most)
        folder, incidents = Path(name) / "file", Incidents()
        if disk == "unwritable":
            folder.write_text("not a folder")
        own = Outbox(folder, max_bytes=10_000_000 * is_fine, incidents=incidents)
        own.start()
        for is_sample, error, drains, ends in puts:
            consumers = {EVALUATE if is_sample else FEEDBACK}
            job = Job(consumers, partial(_text, error), left=consumers & {FEEDBACK})
            own.put(job)
            if drains:
                assert own.drain(PATIENCE)
            if ends and is_sample and not is_fine:
                own.end(job, EVALUATE, [SINK], lambda: "x")
        assert own.drain(PATIENCE)
        refused = Counter(one for one, error, *_ in puts if error or not is_fine)
        assert own.undurable == refused[True]
        assert incidents.counts().get("feedback is lost", 0) == refused[False]
        if is_fine:
            stored = sum(is_sample and error is None for is_sample, error, *_ in puts)
            assert own.counts().get("pending", 0) == stored
        own.close(PATIENCE)


def test_caller_goes_on_while_the_disk_fails(tmp_path: Path) -> None:
    own = Outbox(tmp_path / "file", max_bytes=10_000_000, incidents=Incidents())
    own.start()
    with mock.patch.object(OutboxFile, "write", side_effect=OSError("the disk is gone")):
        assert own.put(Job({EVALUATE}, partial(_text, None))).result(PATIENCE)
    assert own.drain(PATIENCE)
    assert own.counts()["pending"] == 1
    own.close(PATIENCE)


def _text(error: type[Exception] | None) -> str:
    if error is UnicodeEncodeError:
        return "\ud800".encode().decode()
    if error is not None:
        raise error
    return "x"


def test_unknown_failure_of_a_commit_pauses_and_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox, "_ERROR_PAUSE_S", 0.3)
    write, tries = OutboxFile.write, iter(range(2))

    def fail(self: OutboxFile, changes: Any) -> list[int | None]:
        if next(tries, None) is not None:
            raise MemoryError
        return write(self, changes)

    monkeypatch.setattr(OutboxFile, "write", fail)
    own = Outbox(tmp_path / "spool", max_bytes=10_000_000, incidents=(incidents := Incidents()))
    own.start()
    for _ in range(5):
        own.put(Job({EVALUATE}, lambda: "x"))
    until(lambda: own.counts().get("pending") == 5)
    assert (own.undurable, own.is_stalled) == (0, False)
    assert incidents.counts() == {"spool: MemoryError": 2}
    own.close(PATIENCE)
    monkeypatch.setattr(outbox, "_POLL_S", 600.0)
    take = mock.Mock(return_value=True)
    heir = Outbox(tmp_path / "spool", max_bytes=10_000_000, incidents=incidents)
    heir.consume(EVALUATE, lambda: 1, take)
    heir.start()
    until(lambda: take.call_count == 5)
    heir.close(PATIENCE)


def test_results_of_a_sample_that_another_process_claimed_are_not_counted_as_refused(
    tmp_path: Path,
) -> None:
    own = Outbox(tmp_path / "spool", max_bytes=10_000_000, incidents=(incidents := Incidents()))
    own.start()
    own.put(job := Job({EVALUATE}, lambda: "x"))
    assert own.drain(PATIENCE)
    with closing(sqlite3.connect(tmp_path / "spool" / outbox_file.NAME)) as db, db:
        db.execute("UPDATE jobs SET owner = 'another'")
    ended = own.end(job, EVALUATE, [SINK], lambda: "y")
    assert ended.result(PATIENCE) is False
    assert (own.undurable, incidents.counts(), own.counts()["pending"]) == (0, {}, 1)
    own.close(PATIENCE)


class Machine(RuleBasedStateMachine):
    @initialize()
    def begin(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name) / "spool"
        self.nodes = [Node(self.path), Node(self.path)]
        self.number = 0
        self.stored: set[str] = set()
        self.ended: dict[str, Counter[str]] = {EVALUATE: Counter(), SINK: Counter()}
        self.noted: dict[str, Counter[str]] = {EVALUATE: Counter(), SINK: Counter()}

    @property
    def awake(self) -> list[Node]:
        return [node for node in self.nodes if not node.is_frozen]

    def node(self, index: int) -> Node:
        return self.awake[index % len(self.awake)]

    @precondition(lambda self: self.awake)
    @rule(index=st.integers(0, 3))
    def put(self, index: int) -> None:
        self.number += 1
        name = f"s{self.number}"
        if self.node(index).ask("put", name):
            self.stored.add(name)

    @precondition(lambda self: self.awake)
    @rule(index=st.integers(0, 3), consumer=st.sampled_from([EVALUATE, SINK]))
    def end(self, index: int, consumer: str) -> None:
        self._end(self.node(index), consumer)

    @precondition(lambda self: self.awake)
    @rule(index=st.integers(0, 3), consumer=st.sampled_from([EVALUATE, SINK]))
    def retry(self, index: int, consumer: str) -> None:
        self.node(index).ask("retry", consumer)

    @rule(index=st.integers(0, 3))
    def kill(self, index: int) -> None:
        self.nodes.pop(index % len(self.nodes)).kill()
        self.nodes.append(Node(self.path))

    @rule(index=st.integers(0, 3), seconds=st.sampled_from([0.0, 0.8]))
    def freeze(self, index: int, seconds: float) -> None:
        self.nodes[index % len(self.nodes)].send(signal.SIGSTOP)
        time.sleep(seconds)

    @rule()
    def thaw(self) -> None:
        for node in self.nodes:
            node.send(signal.SIGCONT)

    @precondition(lambda self: self.awake)
    @rule(index=st.integers(0, 3), size=st.sampled_from([0, 40_000, 10_000_000]))
    def limit_disk(self, index: int, size: int) -> None:
        self.node(index).ask("fill", size)

    def teardown(self) -> None:
        if not hasattr(self, "nodes"):
            return
        for node in self.nodes:
            node.kill()
        last = Node(self.path)
        try:
            if self.stored:
                until(lambda: self._is_done(last))
            for consumer in (EVALUATE, SINK):
                assert set(self.noted[consumer].values()) <= {0, 1}, self.noted
                assert self.stored <= self.ended[consumer].keys()
            last.ask("close")
        finally:
            last.kill()
            self.folder.cleanup()

    def _end(self, node: Node, consumer: str) -> bool:
        answer = node.ask("done", consumer)
        if answer is None:
            return False
        name, is_ours, is_noted = answer
        if is_ours:
            self.ended[consumer][name] += 1
            self.noted[consumer][name] += is_noted
        return True

    def _is_done(self, last: Node) -> bool:
        for consumer in (EVALUATE, SINK):
            while self._end(last, consumer):
                pass
        counts = read_counts(self.path / outbox_file.NAME)
        return not any(counts.values())


TestOutbox = Machine.TestCase
TestOutbox.settings = fixed_machine(4, 40, steps=25)
