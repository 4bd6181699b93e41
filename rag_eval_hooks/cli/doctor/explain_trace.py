"""Why a trace has no score: from files that outlive a process, and from the sampler."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from rag_eval_hooks.cli.doctor.check_settings import from_sampler
from rag_eval_hooks.cli.doctor.result import Result, Setup, Status
from rag_eval_hooks.cli.doctor.spans_file import from_spans, is_map, read_json_lines
from rag_eval_hooks.feedback import id_of
from rag_eval_hooks.pipeline import ADVICE
from rag_eval_hooks.spool.inspect import StoredSample, spool_samples
from rag_eval_hooks.sqlite_file import FILE_ERRORS

__all__ = ["SOURCES", "explain_trace"]


def explain_trace(setup: Setup, given: str) -> Iterator[Result]:
    """Report what is known of a trace, the most reliable source first.

    Args:
        setup: The settings, and where to look.
        given: 32 hex digits, a sample's id, or a root run's, written in any way.
    """
    name = id_of(given)
    told = [result for look in SOURCES for result in look(setup, name)]
    yield from told
    # Of a sample in a trace, the trace's id was decided about.
    key = next((r.figures["trace_id"] for r in told if r.figures.get("trace_id")), None)
    decided = from_sampler(setup, name if key is None else id_of(key))
    yield decided
    if not told:
        yield _unknown(setup, taken=decided.status is not Status.NOTE)


def _unknown(setup: Setup, *, taken: bool) -> Result:
    looked = [spec for spec in setup.config.sinks if spec.startswith("jsonl:")]
    looked += [f"the spool {setup.config.spool}"] if setup.config.spool else []
    looked += [str(setup.spans)] if setup.spans else []
    where = "no file is in the settings to look into"
    if looked:
        where = f"it is not in {', '.join(looked)}"
    if taken:
        text = (
            f"{where}; the sampler would take it. So nothing was retrieved in it, which makes it "
            "no interaction; or it was dropped (queue, rate limit, a request that did not end "
            "well), failed, or another process with other settings served it"
        )
    else:
        text = f"{where}; that the sampler leaves it out is the likely cause"
    return Result(
        check="otherwise",
        status=Status.NOTE,
        text=text,
        advice="look at rag.eval.status and rag.eval.reason on its RAG span, or give the spans by "
        "--spans FILE; call evals.explain(id) in the process that served it; or keep a file with "
        "sinks=jsonl:PATH",
    )


def _from_sinks(setup: Setup, name: str) -> Iterator[Result]:
    for spec in setup.config.sinks:
        kind, _, path = spec.partition(":")
        for record in read_json_lines(Path(path)) if kind == "jsonl" else ():
            sample = record.get("sample")
            known = dict(sample) if is_map(sample) and sample else {}
            if name in _ids(known):
                yield _delivered(spec, record)


def _ids(sample: Mapping[str, Any]) -> set[str]:
    known = (sample.get("trace_id"), sample.get("sample_id"))
    return {id_of(value) for value in known if value is not None}


def _delivered(spec: str, record: Mapping[str, Any]) -> Result:
    outcomes = record.get("outcomes", {})
    scores = {k: o["value"] for k, o in outcomes.items() if "value" in o}
    absent = {k: _absence(o) for k, o in outcomes.items() if "not_scored" in o}
    sample = record["sample"].get("sample_id", "without an id")
    text = f"sample {sample}: {len(scores)} scores, {len(absent)} metrics without"
    lines = [f"{name} = {value:.4g}" for name, value in scores.items()]
    lines += [f"{name}: {why}" for name, why in absent.items()]
    causes = dict.fromkeys(o["not_scored"] for o in outcomes.values() if "not_scored" in o)
    advice = "; ".join(f"{cause}: {ADVICE[cause]}" for cause in causes if cause in ADVICE)
    return Result(
        check=f"in {spec}",
        status=Status.OK if scores else Status.FAILED,
        text="; ".join([text, *lines]),
        advice=advice,
        figures={
            "scores": scores,
            "absent": absent,
            "trace_id": record["sample"].get("trace_id"),
        },
    )


def _absence(outcome: Mapping[str, Any]) -> str:
    return ", ".join(filter(None, (outcome["not_scored"], outcome.get("detail"))))


def _from_spool(setup: Setup, name: str) -> Iterator[Result]:
    if setup.config.spool is None:
        return
    path = Path(setup.config.spool)
    try:
        found = spool_samples(path, name)
    except FILE_ERRORS as error:
        text = f"{path} cannot be read ({type(error).__name__})"
        yield Result(check="in the spool", status=Status.WARNING, text=text, advice="run doctor")
        return
    for sample in found:
        yield _undelivered(path, sample) if sample.is_counted else _pending(path, sample)


def _pending(path: Path, sample: StoredSample) -> Result:
    age = max(0.0, time.time() - sample.accepted_at)
    text = f"sample {sample.id}: pending in {path} for {age:.0f} s, chosen by {sample.reason}"
    text += f" with probability {sample.probability:g}"
    advice = "a process of these settings evaluates it; look again"
    if sample.scores:
        text += "; it is evaluated, and its scores wait for delivery"
        advice = "a process of these settings delivers it; look again"
    if not sample.is_owned:
        text += "; no process has it now"
        advice = "start a process with these settings: it evaluates what was left"
    if sample.tries:
        text += f"; begun {sample.tries} times by processes that did not live to its end"
    return _in_the_spool(sample, text, advice)


def _undelivered(path: Path, sample: StoredSample) -> Result:
    age = max(0.0, time.time() - sample.accepted_at)
    sinks = ", ".join(sorted({name.rpartition("-")[0] or name for name in sample.sinks}))
    text = f"it is evaluated, and {sinks} has not taken its {sample.scores} scores yet:"
    text += f" they wait in {path} for {age:.0f} s"
    advice = f"see that {sinks} runs and can be reached; they are sent when it answers"
    if not sample.is_owned:
        text += "; no process has them now"
        advice = f"start a process with these settings and the same {sinks}"
    return _in_the_spool(sample, text, advice)


def _in_the_spool(sample: StoredSample, text: str, advice: str) -> Result:
    return Result(
        check="in the spool",
        status=Status.NOTE,
        text=text,
        advice=advice,
        figures={"trace_id": sample.trace_id},
    )


SOURCES: Final[tuple[Callable[[Setup, str], Iterable[Result]], ...]] = (
    _from_sinks,
    from_spans,
    _from_spool,
)
"""Sources that outlive a process, the most reliable first. To add one: a line here."""
