"""Selects results, ranks the worst samples, and finds likely faults by rules in `rules.toml`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from statistics import fmean
from typing import Final

from rag_eval_hooks.errors import ConfigError
from rag_eval_hooks.result import Evaluation
from rag_eval_hooks.results.estimate import Estimate
from rag_eval_hooks.results.summary import CLASS, DATA, checked_rows, group_key, mean_over
from rag_eval_hooks.score import Cause, NotScored, Outcome, Score

_MOST_UNDEFINED: Final = 0.1  # fraction of samples
FAITHFULNESS: Final = ("ragas.faithfulness", "graphrag.ragas_faithfulness")
_UNDEFINED: Final = 0.999


def worst(rows: Iterable[Evaluation], metric: str | None = None) -> list[Evaluation]:
    """Return the results in order of the metric's normalized score, worst first.

    Results with equal scores are in order of the metric's risk, and then of the mean of all scores.
    A risk is a number from 0 to 1, and 1 is worst. If the metric has only a risk, 1 - risk replaces
    the score. If you pass a metric, the list omits results where it has neither score nor risk.

    The default metric is faithfulness. The list then omits only results without any score or risk.
    If faithfulness has no score and no risk, the result ranks just before perfect scores. Results
    without the metric faithfulness come last.
    """
    rows = checked_rows(rows)
    known = {name: None for row in rows for name in row.outcomes}
    if metric is not None and known and metric not in known:
        raise ConfigError.unknown("metric", metric, known)
    ranked = [(key, row) for row in rows if (key := badness(row, metric)) is not None]
    return [row for _, row in sorted(ranked, key=lambda pair: pair[0])]


def badness(row: Evaluation, metric: str | None = None) -> tuple[float, float, float] | None:
    outcome = faithfulness_of(row) if metric is None else row.outcomes.get(metric)
    deciding = list(row.outcomes.values()) if metric is None else [outcome]
    if not any(isinstance(one, Score) or (one and one.risk is not None) for one in deciding):
        return None
    mean = fmean(score.normalized for score in row.scores.values()) if row.scores else 1.0
    if outcome is None:
        return 2.0, 1.0, mean
    safety = 1.0 - (outcome.risk or 0.0)
    level = outcome.normalized if isinstance(outcome, Score) else min(safety, _UNDEFINED)
    return level, safety, mean


def faithfulness_of(row: Evaluation) -> Outcome | None:
    return next((row.outcomes[name] for name in FAITHFULNESS if name in row.outcomes), None)


def select(
    rows: Iterable[Evaluation],
    *,
    since: datetime | None = None,
    until: datetime | None = None,
    where: Iterable[tuple[str, str]] = (),
    metrics: Iterable[str] = (),
) -> Iterator[Evaluation]:
    """Yield the results that meet all conditions.

    Args:
        rows: The results.
        since: Earliest start of a request. `since` and `until` exclude results without a time.
        until: Requests must start before this time.
        where: Pairs (key, required value). The key `tag` requires a tag of the sample. All other
            keys have the same meaning as `by` in `summarise`.
        metrics: Metric ids or suites to keep. The default is all metrics.
    """
    conditions, chosen = list(where), set(metrics)
    for row in rows:
        when = row.time
        is_early = since is not None and (when is None or when < since)
        is_late = until is not None and (when is None or when >= until)
        if is_early or is_late or not all(_has(row, *each) for each in conditions):
            continue
        if chosen:
            kept = {k: v for k, v in row.outcomes.items() if chosen & {k, k.partition(".")[0]}}
            row = replace(row, outcomes=kept)
        if row.outcomes or not chosen:
            yield row


def _has(row: Evaluation, key: str, value: str) -> bool:
    return value in row.sample.tags if key == "tag" else group_key(row, key) == value


CUTS: Final = (0.5, 0.8)  # normalized: low below the first bound, high from the second


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreRule:
    """A pattern of scores and its meaning. `rules.toml` explains each field."""

    name: str
    blame: str
    meaning: str
    advice: str
    high: Sequence[str] = ()
    low: Sequence[str] = ()
    label: str | None = None
    outnumbers: str | None = None
    rest: bool = False


RULES: Final = tuple(ScoreRule(**values) for values in DATA["rules"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """A rule and its matching samples. `share` estimates the fraction of requests that match."""

    rule: ScoreRule
    share: Estimate
    rows: Sequence[Evaluation] = field(repr=False)  # the worst sample is first


def diagnose(
    rows: Iterable[Evaluation], *, cuts: Mapping[str, tuple[float, float]] | None = None
) -> list[Diagnosis]:
    """Return the rules of `rules.toml` that match at least one sample.

    Rules that report a fault come first, sorted by descending share of requests. Rules that report
    success follow in the same order. If a score has the flag `screening`, the list omits all rules
    about success. The list also omits these rules if over a tenth of the samples have an undefined
    score.

    Args:
        rows: The results.
        cuts: Two normalized bounds for each metric id. A score below the first bound is low. A
            score at or above the second bound is high. The default bounds are `CUTS`.
    """
    known = list(rows)
    levels = [_levels(row, cuts or {}) for row in known]
    # Good signs need decided scores of a calibrated judge.
    is_sure = known and fmean(map(_is_unsure, known)) <= _MOST_UNDEFINED
    is_sure = is_sure and not any(s.screening for row in known for s in row.scores.values())
    earlier, found = list[tuple[ScoreRule, set[int]]](), []
    for rule in sorted(RULES, key=lambda rule: rule.rest):
        shown = [_shows(rule, each) for each in levels]
        hits = {at for at, flag in enumerate(shown) if flag}
        if rule.rest:
            hits -= {at for other, ats in earlier if _overlap(rule, other) for at in ats}
        earlier.append((rule, hits))
        others = sum(each.get("label") == rule.outnumbers for each in levels)
        is_shown = is_sure if rule.blame == "none" else not rule.outnumbers or len(hits) > others
        if hits and is_shown:
            matches = [at for at, flag in enumerate(shown) if flag is not None]
            values = [float(at in hits) for at in matches]
            share = mean_over([(known[at], known[at]) for at in matches], values)
            assert share is not None
            matching = worst(known[at] for at in sorted(hits))
            found.append(Diagnosis(rule=rule, share=share, rows=matching))
    return sorted(found, key=lambda one: (one.rule.blame == "none", -one.share.mean))


def _is_unsure(row: Evaluation) -> bool:
    outcomes = (one for name, one in row.outcomes.items() if not name.startswith("lexical."))
    return any(isinstance(one, NotScored) and one.cause is Cause.UNDEFINED for one in outcomes)


def _overlap(rule: ScoreRule, other: ScoreRule) -> bool:
    same_label = rule.label is not None and rule.label == other.label
    return same_label or not set(rule.low).isdisjoint(other.low)


def _levels(row: Evaluation, cuts: Mapping[str, tuple[float, float]]) -> dict[str, str | None]:
    levels: dict[str, str | None] = {}
    for name, score in row.scores.items():
        value, (low, high) = score.normalized, cuts.get(name, CUTS)
        levels[name] = "high" if value >= high else "low" if value < low else "middle"
    every = "high" if set(levels.values()) == {"high"} else "middle" if levels else None
    roles = DATA["roles"].items()
    levels |= {role: next(filter(None, map(levels.get, names)), None) for role, names in roles}
    label = row.scores[CLASS].label or "none" if CLASS in row.scores else None
    return {**levels, "every": every, "label": label}


def _shows(rule: ScoreRule, levels: Mapping[str, str | None]) -> bool | None:
    wanted = {**dict.fromkeys(rule.high, "high"), **dict.fromkeys(rule.low, "low")}
    if rule.label is not None:
        wanted["label"] = rule.label
    known = [levels.get(name) for name in wanted]
    return None if None in known else known == list(wanted.values())
