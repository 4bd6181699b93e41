"""Check what settings name: metrics, rates, files, sinks, redaction, golden questions, budget."""

from __future__ import annotations

import math
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from rag_eval_hooks.cli.doctor.result import CheckResult, CheckStatus, Setup, advice_for
from rag_eval_hooks.config.settings import RagEvalConfig
from rag_eval_hooks.decision import Decision, Traits
from rag_eval_hooks.delivery import sink_list
from rag_eval_hooks.errors import ConfigError, masked
from rag_eval_hooks.evaluation.golden_references import Golden, folded, read_golden
from rag_eval_hooks.explanation import ADVICE
from rag_eval_hooks.incidents import Incidents
from rag_eval_hooks.judges.calls.budget import Budget, budget_of
from rag_eval_hooks.judges.prices import prices_of
from rag_eval_hooks.metrics import Metric, build, chosen_by_default
from rag_eval_hooks.redaction import choose_redactor
from rag_eval_hooks.runtime.arguments import chosen_metrics, finding_sources, metric_options
from rag_eval_hooks.sampling.sampler import MetricNames, sampler_of
from rag_eval_hooks.sampling.selection import Selection

__all__ = [
    "check_budget",
    "check_metrics",
    "check_prices",
    "check_redaction",
    "check_references",
    "check_sampling",
    "check_sinks",
    "from_sampler",
]

_SENTENCE: Final = "Write to jane@example.com, or call +49 30 901820."


def check_metrics(setup: Setup) -> Iterator[CheckResult]:
    """Report the metrics that will be computed."""
    try:
        metrics, _available = _metrics(setup.config)
    except ConfigError as error:
        advice = f"set {error.field}; `rag-eval-hooks metrics` lists what there is"
        yield CheckResult(CheckStatus.FAILED, str(error), advice)
        return
    if setup.config.metrics:
        yield CheckResult(
            CheckStatus.OK, f"{len(metrics)}: " + ", ".join(metric.id for metric in metrics)
        )
    else:
        yield CheckResult(
            CheckStatus.OK, f"those of ragas that a sample can feed, of {len(metrics)}"
        )


def check_sampling(setup: Setup) -> Iterator[CheckResult]:
    """Report the share of requests that the rates of the chosen metrics take, without rules."""
    try:
        metrics, available = _metrics(setup.config)
    except ConfigError:
        return  # a failure of the check of metrics
    Selection(setup.config, metrics, available, Incidents())
    _metrics_decided, decision = _decided(setup.config, "")
    rate = decision.probability
    if rate or setup.config.rules or setup.config.tail:
        yield CheckResult(CheckStatus.OK, f"{rate:.4g} of all requests{_reservation(setup.config)}")
        return
    text = "all rates of the chosen metrics are 0: nothing is evaluated"
    yield CheckResult(CheckStatus.WARNING, text, "set sample_rate, or one of metric_rates, above 0")


def from_sampler(setup: Setup, key: str) -> CheckResult:
    """Report whether an id is taken, at which rate, and by how many metrics."""
    try:
        metrics, decision = _decided(setup.config, key)
    except ConfigError as error:
        return CheckResult(CheckStatus.FAILED, str(error), advice_for(error), check="sampler")
    text = f"at probability {decision.probability:g} ({decision.because}) this id is "
    reservation = _reservation(setup.config)
    if not decision.sampled:
        text += f"left out{reservation}"
        return CheckResult(CheckStatus.NOTE, text, ADVICE["sampled_out"], check="sampler")
    text += "taken"
    if left := [metric.id for metric in metrics if metric.id not in decision.chosen]:
        text += f", but for {len(left)} of {len(metrics)} metrics: {', '.join(left[:8])}"
        text += " and others" if len(left) > 8 else ""
    return CheckResult(CheckStatus.OK, text + reservation, check="sampler")


def _metrics(config: RagEvalConfig) -> tuple[Sequence[Metric], Sequence[Metric]]:
    """Return the chosen metrics and all that exist."""
    available = build(metric_options(config))
    return chosen_metrics(None, config, available) or chosen_by_default(available), available


def _decided(config: RagEvalConfig, key: str) -> tuple[Sequence[Metric], Decision]:
    metrics, available = _metrics(config)
    # Rules depend on the request, of which only the id is known.
    without_rules = config.model_copy(update={"rules": ()})
    return metrics, sampler_of(without_rules, MetricNames(metrics, available)).decide(key, Traits)


def _reservation(config: RagEvalConfig) -> str:
    parts = {"rules": config.rules, "tail rules": config.tail, "a rate limit": config.rate_limit}
    names = " and ".join(name for name, value in parts.items() if value)
    return f"; {names} may say otherwise" if names else ""


def check_prices(setup: Setup) -> Iterator[CheckResult]:
    """Read the price table, and look for the price of the judge's model."""
    config = setup.config
    kind, _, model = config.judge.partition(":")
    try:
        prices = prices_of(config)
    except ConfigError as error:
        yield CheckResult(CheckStatus.FAILED, str(error), "mend the file")
        return
    if config.judge_prices is not None:
        yield CheckResult(CheckStatus.OK, f"{config.judge_prices} can be read")
    if kind not in ("openai", "azure"):
        return
    price = prices.of(f"openai:{model}")
    if price is not None:
        text = f"{model}: {price.input:g} and {price.output:g} {prices.currency} a million tokens"
        yield CheckResult(CheckStatus.OK, f"{text} in and out")
        return
    advice = 'for costs on scores: pip install "rag-eval-hooks[prices]", or a table in judge_prices'
    yield CheckResult(CheckStatus.NOTE, f"no price of {model} is known", advice)


def check_sinks(setup: Setup) -> Iterator[CheckResult]:
    """Open each file for appending, without writing."""
    sink_list(None, setup.config)
    for spec in setup.config.sinks:
        name, _, address = spec.partition(":")
        if name == "jsonl":
            yield _writable(f"sink {spec}", Path(address))
    if not setup.config.sinks:
        text = "none in the settings: scores stand on spans, and go where the code sends them"
        yield CheckResult(CheckStatus.NOTE, text)


def _writable(check: str, path: Path) -> CheckResult:
    try:
        if path.exists():
            path.open("a", encoding="utf-8").close()
        else:
            tempfile.TemporaryFile(dir=path.parent).close()
    except OSError as error:
        text = f"{path} cannot be written: {error.strerror or type(error).__name__}"
        advice = "give this user the right to write there, or name another place"
        return CheckResult(CheckStatus.FAILED, text, advice, check=check)
    return CheckResult(CheckStatus.OK, f"{path} can be written", check=check)


def check_redaction(setup: Setup) -> Iterator[CheckResult]:
    """Redact a sentence of our own."""
    redactor = choose_redactor(setup.config, None)
    redacted = redactor.session().text("question", _SENTENCE)
    if redactor.active:
        names = ", ".join(setup.config.redact) or "ids"
        yield CheckResult(CheckStatus.OK, f"{names}; makes {redacted!r}")
        return
    advice = "" if setup.config.judge == "local" else "set redact, such as redact=all"
    yield CheckResult(
        CheckStatus.NOTE, "none: the judge and the sinks get texts as they are", advice
    )


def check_references(setup: Setup) -> Iterator[CheckResult]:
    """Read the golden questions, and count those that occur twice."""
    config = setup.config
    if config.references is None:
        return
    try:
        golden = read_golden(config.references)
    except ConfigError as error:
        yield CheckResult(CheckStatus.FAILED, str(error), f"mend the file: {error.wants}")
        return
    yield _counted(golden, config.references)


def _counted(golden: tuple[Golden, ...], path: str) -> CheckResult:
    times = Counter(folded(one.question) for one in golden)
    twice = sum(count - 1 for count in times.values())
    answers = {(folded(one.question), one.reference) for one in golden}
    figures = {"questions": len(times), "duplicates": twice}
    text = f"{path}: {len(times)} questions"
    if not twice:
        return CheckResult(CheckStatus.OK, text, figures=figures)
    text += f", {twice} of them again; of equal questions the first counts"
    advice = "remove the others"
    if len(answers) > len(times):
        text += f", and {len(answers) - len(times)} have another answer"
        advice = "decide which answer is right, and remove the others"
    return CheckResult(CheckStatus.WARNING, text, advice, figures)


def check_budget(setup: Setup) -> Iterator[CheckResult]:
    """Check prices, and the file that processes share; a file that is missing is not made."""
    config = setup.config
    sources = finding_sources(config, None, None, None) if config.budget_limits else None
    if sources is None:
        return
    budget = budget_of(config, sources.judge, sources.embedder, Incidents())
    if budget is not None:
        yield _spent(budget, config)


def _spent(budget: Budget, config: RagEvalConfig) -> CheckResult:
    path = config.budget_path
    if path is None:
        return CheckResult(
            CheckStatus.NOTE, "of this process alone", "set path in budget to share it"
        )
    if "://" not in path and not Path(path).exists():
        return CheckResult(CheckStatus.OK, f"{path} is not there yet; the first call makes it")
    try:
        spent = budget.spent()
    except OSError as error:
        kind = type(error.__cause__ or error).__name__
        text = f"{masked(path)} cannot be used ({kind}): no call is sent"
        advice = "see that it is a database of ours that this user may write; else remove it"
        return CheckResult(CheckStatus.FAILED, text, advice)
    finally:
        budget.close()
    figures: dict[str, float] = {}
    parts = []
    for name, limit in config.budget_limits.items():
        unit, _, period = name.partition("_per_")
        figures[name] = used = float(getattr(spent[period], unit))
        is_spent = used >= limit or math.isclose(used, limit)
        parts.append(f"{used:g} of {limit:g} {unit} this {period}{' (spent)' * is_spent}")
    return CheckResult(CheckStatus.OK, f"{masked(path)}: " + ", ".join(parts), figures=figures)
