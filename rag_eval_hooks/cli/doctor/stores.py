"""Golden questions and the budget: files that settings name and every process reads."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from rag_eval_hooks.cli.doctor.result import Result, Setup, Status
from rag_eval_hooks.config.settings import RagEvalConfig
from rag_eval_hooks.errors import ConfigError
from rag_eval_hooks.evaluation.golden_references import Golden, folded, read_golden, references_of
from rag_eval_hooks.incidents import Incidents
from rag_eval_hooks.judges.calls.budget import Budget, budget_of
from rag_eval_hooks.pipeline.wiring import finding_sources

__all__ = ["check_budget", "check_references"]


def check_references(setup: Setup) -> Iterator[Result]:
    """Reads the golden questions, and counts those that are there twice."""
    config = setup.config
    if config.references is None:
        return
    try:
        golden = read_golden(config.references)
    except ConfigError as error:
        advice = f"mend the file: {error.wants}"
        yield Result(check="references", status=Status.FAILED, text=str(error), advice=advice)
        return
    yield _counted(golden, config.references)
    if config.references_threshold is not None:
        yield from _by_likeness(config)


def _counted(golden: tuple[Golden, ...], path: str) -> Result:
    times = Counter(folded(one.question) for one in golden)
    twice = sum(count - 1 for count in times.values())
    answers = {(folded(one.question), one.reference) for one in golden}
    figures = {"questions": len(times), "duplicates": twice}
    text = f"{path}: {len(times)} questions"
    if not twice:
        return Result(check="references", status=Status.OK, text=text, figures=figures)
    text += f", {twice} of them again; of equal questions the first counts"
    advice = "remove the others"
    if len(answers) > len(times):
        text += f", and {len(answers) - len(times)} have another answer"
        advice = "decide which answer is right, and remove the others"
    return Result(
        check="references", status=Status.WARNING, text=text, advice=advice, figures=figures
    )


def _by_likeness(config: RagEvalConfig) -> Iterator[Result]:
    try:
        sources = finding_sources(config, None, None, None)
        references_of(config, sources.embedder, Incidents())
    except (ConfigError, ImportError) as error:
        advice = _advice(error)
        yield Result(check="references", status=Status.FAILED, text=str(error), advice=advice)


def check_budget(setup: Setup) -> Iterator[Result]:
    """Prices, and the file that processes share; one that is not there yet is not made."""
    config = setup.config
    if not config.budget_limits:
        return
    try:
        sources = finding_sources(config, None, None, None)
        budget = budget_of(config, sources.judge, sources.embedder, Incidents())
    except (ConfigError, ImportError) as error:
        yield Result(check="budget", status=Status.FAILED, text=str(error), advice=_advice(error))
        return
    if budget is not None:
        yield _spent(budget, config)


def _spent(budget: Budget, config: RagEvalConfig) -> Result:
    path = config.budget_path
    if path is None:
        text, advice = (
            "of this process alone",
            "write budget.path to share it",
        )
        return Result(check="budget", status=Status.NOTE, text=text, advice=advice)
    if not Path(path).exists():
        text = f"{path} is not there yet; the first call makes it"
        return Result(check="budget", status=Status.OK, text=text)
    try:
        spent = budget.spent()
    except OSError as error:
        text = f"{path} cannot be used ({type(error.__cause__ or error).__name__}): no call is sent"
        advice = "see that it is a database of ours that this user may write; else remove it"
        return Result(check="budget", status=Status.FAILED, text=text, advice=advice)
    finally:
        budget.close()
    figures: dict[str, float] = {}
    told = []
    for name, limit in config.budget_limits.items():
        unit, _, period = name.partition("_per_")
        figures[name] = used = float(getattr(spent[period], unit))
        told.append(f"{used:g} of {limit:g} {unit} this {period}")
        if used >= limit or math.isclose(used, limit):
            told[-1] += " (spent)"
    text = f"{path}: " + ", ".join(told)
    return Result(check="budget", status=Status.OK, text=text, figures=figures)


def _advice(error: ConfigError | ImportError) -> str:
    if isinstance(error, ConfigError):
        return f"set {error.field}: {error.wants}"
    return "install it: " + str(error).rpartition(": ")[2]
