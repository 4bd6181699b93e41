"""Measure the errors of intervals, gates and alerts on simulated results with a known mean.

    python -m benchmarks.interval_coverage [--runs 400] [--days 14] [--json FILE]

Coverage is the share of 95 % intervals that contain the true mean. The column `unweighted` is the
coverage of intervals that ignore weights and sessions. `--json FILE` writes three tables into the
folder of FILE.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import replace

from benchmarks.table import parser_of, written
from rag_eval_hooks import Sample
from rag_eval_hooks.result import Evaluation
from rag_eval_hooks.results import (
    AlertSink,
    FailCondition,
    compare,
    failed_conditions,
    regressed,
    summarise,
)
from rag_eval_hooks.results.estimate import Estimate, mean_of
from rag_eval_hooks.score import UNIT, Outcome
from tests.support.servers.platform_server import Answer, PlatformServer

METRIC = "ragas.faithfulness"
CLAIMS = 5
Drawn = tuple[list[Evaluation], float]


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--runs", type=int, default=400)
    parser.add_argument("--days", type=int, default=14)
    options = parser.parse_args()
    chance = random.Random(20261126)
    tables = {
        "intervals": [coverage(name, options.runs, chance) for name in DESIGNS],
        "gates": [*false_alarms(options.runs, chance), *power(options.runs, chance)],
        "alerts": [alerts(margin, options.days, chance) for margin in (0.0, 0.02, 0.05, 0.1, -0.1)],
    }
    for title, rows in tables.items():
        print(f"\n{title}")
        written(rows, None if options.json is None else options.json.with_name(f"{title}.json"))


def share(level: float, chance: random.Random) -> float:
    return sum(chance.random() < level for _ in range(CLAIMS)) / CLAIMS


def row(value: float, probability: float | None = None, **fields: str) -> Evaluation:
    score = replace(UNIT.score(value), probability=probability)
    return Evaluation(sample=Sample(question="q", **fields), outcomes={METRIC: score})  # type: ignore[arg-type]


def strata(*kinds: tuple[float, float, float]) -> Callable[[random.Random], Drawn]:
    truth = sum(part * level for part, level, _ in kinds)

    def drawn(chance: random.Random) -> Drawn:
        rows = []
        parts = [part for part, _, _ in kinds]
        for _, level, rate in chance.choices(kinds, parts, k=1000):
            if chance.random() < rate:
                rows.append(row(share(level, chance), rate))
        return rows, truth

    return drawn


def sessions(chance: random.Random) -> Drawn:
    # 15 sessions of 20 requests; each session has a separate mean score.
    rows = []
    for session in range(15):
        level = chance.choice([0.6, 0.9])
        rows += [row(share(level, chance), session_id=f"s{session}") for _ in range(20)]
    return rows, 0.75


DESIGNS: dict[str, Callable[[random.Random], Drawn]] = {
    "uniform": strata((1.0, 0.8, 0.2)),
    "strata": strata((0.2, 0.5, 0.8), (0.8, 0.9, 0.1)),
    "tail": strata((0.15, 0.05, 1.0), (0.85, 0.8, 0.1)),  # bad answers, always sampled
    "rare stratum": strata((0.5, 0.85, 0.01), (0.5, 0.95, 0.5)),
    "sessions": sessions,
}


def coverage(name: str, runs: int, chance: random.Random) -> dict[str, object]:
    hits = plain_hits = samples = 0
    for _ in range(runs):
        rows, truth = DESIGNS[name](chance)
        found = summarise(rows)[None].metrics[METRIC].estimate
        plain = mean_of([one.normalized for each in rows for one in each.scores.values()])
        hits, plain_hits = hits + holds(found, truth), plain_hits + holds(plain, truth)
        samples += len(rows)
    shares = {"coverage": hits / runs, "unweighted": plain_hits / runs}
    return {"design": name, "samples": samples / runs, **shares}


def holds(found: Estimate | None, truth: float) -> bool:
    if found is None:
        return False
    return (found.low or 0.0) <= truth <= (1.0 if found.high is None else found.high)


def build(levels: dict[str, float], number: int, chance: random.Random) -> list[Evaluation]:
    def outcomes() -> dict[str, Outcome]:
        return {name: UNIT.score(share(level, chance)) for name, level in levels.items()}

    asked = (Sample(question=f"q{at}", metadata={"kind": at % 4}) for at in range(number))
    return [Evaluation(sample=sample, outcomes=outcomes()) for sample in asked]


def false_alarms(runs: int, chance: random.Random) -> Iterator[dict[str, object]]:
    levels = {f"m{at}": 0.8 for at in range(7)}
    conditions = [FailCondition.of(f"{metric}<0.8") for metric in levels]
    fell = below = point = 0
    for _ in range(runs):
        base, new = build(levels, 60, chance), build(levels, 60, chance)
        fell += bool(regressed(compare(base, new, by="kind"), 0.0))
        metrics = summarise(new)[None].metrics
        below += bool(failed_conditions(conditions, metrics))
        point += bool(failed_conditions((), metrics, by_point=conditions))
    yield gate("--fail-on-regression 0, 7 metrics, 4 groups", 60, 0.0, fell / runs)
    yield gate("--fail-on, 7 metrics", 60, 0.0, below / runs)
    yield gate("--fail-on-point, 7 metrics", 60, 0.0, point / runs)


def power(runs: int, chance: random.Random) -> Iterator[dict[str, object]]:
    for drop in (0.03, 0.1):
        for number in (50, 100, 200, 500):
            fell, builds = 0, max(20, runs // 4)
            for _ in range(builds):
                base = build({METRIC: 0.85}, number, chance)
                new = build({METRIC: 0.85 - drop}, number, chance)
                fell += bool(regressed(compare(base, new), 0.0))
            yield gate("--fail-on-regression 0", number, drop, fell / builds)


def gate(name: str, samples: int, drop: float, failed: float) -> dict[str, object]:
    return {"gate": name, "samples": samples, "drop": drop, "builds failed": failed}


def alerts(margin: float, days: int, chance: random.Random) -> dict[str, object]:
    first = None
    with PlatformServer(lambda _: Answer(204)) as webhook:
        sink = AlertSink(webhook.url, f"{METRIC}<0.8")
        for at in range(days * 24 * 100):
            end = at * 36 * 10**9
            one = row(share(0.8 + margin, chance))
            sink.deliver(replace(one, probability=1.0, start=end, end=end))
            if webhook.requests and first is None:
                first = at / 100
    a_year = len(webhook.requests) * 365 / days
    return {"truth above the limit": margin, "alerts a year": a_year, "first after, hours": first}


if __name__ == "__main__":
    main()
