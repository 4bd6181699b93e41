"""`Metric`: a named function that computes a score from the findings about a sample."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, TypeVar

from rag_eval_hooks.errors import ConfigError, check_type
from rag_eval_hooks.findings import Finding, Findings
from rag_eval_hooks.sample import Field, Sample
from rag_eval_hooks.score import UNIT, Cause, NotScored, Outcome, Scale, Unavailable
from rag_eval_hooks.text.folding import toml_of

E = TypeVar("E", bound=StrEnum)


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """A named function that computes a score from the findings about a sample.

    Pass your own metric to `RagEval(metrics=[...])`.

    Attributes:
        id: The metric's name, `<suite>.<metric>`.
        score: Pure function of a sample and its findings. The sample has all fields in `needs`.
            `rag_eval_hooks.findings.made` returns a finding, or raises `Unavailable`.
        needs: Fields that the sample must have. Without a field, the metric gives no score, with
            the cause `missing_input`.
        findings: All findings that `score` may read.
        reads: Optional function that returns the findings that one sample needs, a subset of
            `findings`. The evaluator calls `reads` before each round of judge calls.
        scale: Range of the score, and whether higher is better.
        summary: One sentence that explains the score.
        source: Publication that defines the metric.

    Raises:
        ConfigError: `needs` or `findings` has an unknown name.
    """

    id: str
    score: Callable[[Sample, Findings], Outcome]
    needs: frozenset[Field]
    findings: frozenset[Finding] = frozenset()
    reads: Callable[[Sample, Findings], frozenset[Finding]] | None = None
    scale: Scale = UNIT
    summary: str = ""
    source: str = ""

    def __post_init__(self) -> None:
        check_type("id", self.id, str, "'<suite>.<metric>'")
        check_type("scale", self.scale, Scale, "a Scale, such as Scale(0, 5)")
        object.__setattr__(self, "needs", _members("needs", Field, self.needs))
        object.__setattr__(self, "findings", _members("findings", Finding, self.findings))

    @property
    def suite(self) -> str:
        return self.id.partition(".")[0]

    def findings_for(self, sample: Sample, known: Findings) -> frozenset[Finding]:
        """Return the findings that the metric needs for a sample, including the known findings."""
        if self.reads is None:
            return self.findings
        try:
            return self.reads(sample, known)
        except Unavailable:
            # `reads` needs an absent finding. All findings that depend on it will be absent, too.
            return self.reads(sample, Findings())

    def missing(self, sample: Sample) -> tuple[Field, ...]:
        return tuple(sorted(self.needs & Field.lacking(sample)))


def _never_asked(_sample: Sample, _findings: Findings) -> Outcome:
    return NotScored(Cause.METRIC_FAILED, "the metric was never called")


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedMetric(Metric):
    """A metric that an async function computes, without the judge's findings.

    Pass the metric to `RagEval(metrics=[...])`.

    Attributes:
        ask: Async function that maps a sample to an outcome. It must not block the event loop.
        timeout: Maximum seconds of one call. After a timeout, the metric gives no score, with the
            cause `timeout`.
        annotator: Name of the tool that computes the score. The score shows this name.
    """

    ask: Callable[[Sample], Awaitable[Outcome]]
    score: Callable[[Sample, Findings], Outcome] = _never_asked
    timeout: float = 60.0
    annotator: str | None = None


def missing_inputs(metrics: Iterable[Metric], sample: Sample) -> dict[str, NotScored]:
    lacking = Field.lacking(sample)
    return {
        metric.id: NotScored(Cause.MISSING_INPUT, f"the sample has no {', '.join(sorted(fields))}")
        for metric in metrics
        if (fields := metric.needs & lacking)
    }


def _members(name: str, kind: type[E], values: Iterable[str]) -> frozenset[E]:
    known = [str(member) for member in kind]
    check_type(name, values, Iterable, f"names of {', '.join(known)}")
    given = [values] if isinstance(values, str) else list(values)
    for value in given:
        if value not in known:
            raise ConfigError.unknown(f"metrics: {name}", value, known)
    return frozenset(map(kind, given))


SUITES: Final[Mapping[str, Any]] = toml_of("suites.toml", __package__)


def metric(
    suite: str,
    name: str,
    score: Callable[[Sample, Findings], Outcome],
    reads: Callable[[Sample, Findings], frozenset[Finding]] | None = None,
    findings: frozenset[Finding] = frozenset(),
) -> Metric:
    table = SUITES[suite]
    row = table["metrics"][name]
    low, high = table["scale"]
    return Metric(
        id=f"{suite}.{name}",
        score=score,
        needs=frozenset(map(Field, row["needs"])),
        findings=findings | frozenset(map(Finding, row.get("findings", ()))),
        reads=reads,
        scale=Scale(low, high, higher_is_better=not row.get("lower_is_better")),
        summary=row["summary"],
        source=f"{table['source']}, {row['where']}",
    )
