"""Tasks and results on the wire: JSON of a versioned shape."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final

from rag_eval_hooks.decision import Decision, Rates, Share
from rag_eval_hooks.request import Column, Ending
from rag_eval_hooks.sample import Sample
from rag_eval_hooks.score import outcome_from_dict, outcome_to_dict

__all__ = ["Shipped", "result_from_text", "result_to_text"]

_SCHEMA: Final = 1
"""Version of the messages; a worker reads those up to its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shipped:
    """One sample on its way to a worker.

    Attributes:
        sample: The sample; its trace and span ids name the RAG span.
        decision: Decision of the application: the rate of each metric.
        accepted: Acceptance in seconds since the epoch.
        mark: Mark of the redaction that was applied to the sample.
    """

    sample: Sample
    decision: Decision
    accepted: float
    mark: str = ""

    def text(self) -> str:
        """Return the message; metadata that JSON does not know becomes its text.

        Raises:
            ValueError: The metadata contains itself.
        """
        shares: dict[tuple[float, str], list[str]] = {}
        for name, share in self.decision.rates.shares.items():
            shares.setdefault((share.rate, share.reason), []).append(name)
        plain = {
            "schema": _SCHEMA,
            "sample": self.sample.to_dict(),
            "position": self.decision.position,
            "shares": [[rate, reason, names] for (rate, reason), names in shares.items()],
            "admission": self.decision.admission,
            "accepted": self.accepted,
            "redaction": self.mark,
        }
        return json.dumps(plain, default=str, separators=(",", ":"))

    @classmethod
    def of(cls, text: str) -> Shipped:
        """Return the sample of a message.

        Raises:
            ValueError: A newer version wrote it, or it is not JSON.
            Exception: It has another shape.
        """
        data = json.loads(text)
        if not 1 <= data["schema"] <= _SCHEMA:
            raise ValueError(f"Schema {data['schema']!r} is newer than this worker.")
        sample = data["sample"]
        shares = {
            name: Share(float(rate), str(reason))
            for rate, reason, names in data["shares"]
            for name in names
        }
        return cls(
            sample=Sample.from_dict({**sample, "truncated": tuple(sample.get("truncated", ()))}),
            decision=Decision(int(data["position"]), Rates(shares), data["admission"]),
            accepted=float(data["accepted"]),
            mark=str(data["redaction"]),
        )


def result_to_text(ending: Ending) -> str:
    """Return the end of a sample in a worker as a message."""
    plain: dict[str, Any] = {"schema": _SCHEMA, "column": ending.column, "reason": ending.reason}
    if (evaluation := ending.evaluation) is not None:
        outcomes = {name: outcome_to_dict(one) for name, one in evaluation.outcomes.items()}
        plain |= {"start": evaluation.start, "end": evaluation.end, "outcomes": outcomes}
    return json.dumps(plain, default=str, separators=(",", ":"))


def result_from_text(text: str) -> dict[str, Any] | Ending:
    """Return the fields of an evaluation that a message fills, or the end of a sample without.

    Raises:
        Exception: The message has another shape.
    """
    data = json.loads(text)
    if "outcomes" not in data:
        return Ending(Column(data["column"]), str(data["reason"]))
    outcomes = {name: outcome_from_dict(one) for name, one in data["outcomes"].items()}
    return {"outcomes": outcomes, "start": int(data["start"]), "end": int(data["end"])}
