"""Messages between application and workers: JSON of a versioned shape."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from rag_eval_hooks.decision import Decision, Rates, Share
from rag_eval_hooks.sample import Sample
from rag_eval_hooks.score import Outcomes, outcome_from_dict, outcome_to_dict

__all__ = ["SCHEMA", "Batch", "Evaluated", "Shipped", "UnknownSchemaError", "replies", "reply_text"]

SCHEMA: Final = 1
"""Version of the messages; a worker reads those up to its own."""


class UnknownSchemaError(ValueError):
    """The message was written by a newer version."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shipped:
    """One sample on its way to a worker.

    Attributes:
        sample: The sample, redacted; its trace and span ids name the RAG span.
        decision: Decision of the application: the rate of each metric.
        accepted_at: Acceptance in seconds since the epoch.
    """

    sample: Sample
    decision: Decision
    accepted_at: float

    def plain(self) -> dict[str, Any]:
        """Return it as plain types; those that JSON does not know are left in metadata."""
        shares: dict[tuple[float, str], list[str]] = {}
        for name, share in self.decision.rates.shares.items():
            shares.setdefault((share.rate, share.reason), []).append(name)
        return {
            "sample": self.sample.to_dict(),
            "position": self.decision.position,
            "shares": [[rate, reason, names] for (rate, reason), names in shares.items()],
            "admission": self.decision.admission,
            "accepted_at": self.accepted_at,
        }

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> Shipped:
        """Return what `plain` wrote.

        Raises:
            Exception: The data have another shape.
        """
        sample = data["sample"]
        shares = {
            name: Share(float(rate), str(reason))
            for rate, reason, names in data["shares"]
            for name in names
        }
        return cls(
            sample=Sample.from_dict({**sample, "truncated": tuple(sample.get("truncated", ()))}),
            decision=Decision(int(data["position"]), Rates(shares), data["admission"]),
            accepted_at=float(data["accepted_at"]),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Samples that travel together.

    Attributes:
        service: Name of the application's service.
        items: The samples.
        redaction: Mark of the redaction that was applied to them.
        reply_to: Queue that gets the results, or None.
        sent_at: Seconds since the epoch.
    """

    service: str
    items: Sequence[Shipped]
    redaction: str = ""
    reply_to: str | None = None
    sent_at: float = field(default_factory=time.time)

    def text(self) -> str:
        """Return the message; metadata that JSON does not know become their text.

        Raises:
            ValueError: Metadata contain themselves.
        """
        plain = {
            "schema": SCHEMA,
            "service": self.service,
            "redaction": self.redaction,
            "reply_to": self.reply_to,
            "sent_at": self.sent_at,
            "items": [item.plain() for item in self.items],
        }
        return json.dumps(plain, default=str, separators=(",", ":"))

    @classmethod
    def of(cls, text: str) -> Batch:
        """Return the batch of a message.

        Raises:
            UnknownSchemaError: A newer version wrote it.
            Exception: It has another shape.
        """
        data = json.loads(text)
        if not 1 <= data["schema"] <= SCHEMA:
            raise UnknownSchemaError(f"schema {data['schema']!r}")
        return cls(
            service=str(data["service"]),
            items=tuple(map(Shipped.of, data["items"])),
            redaction=str(data["redaction"]),
            reply_to=data["reply_to"],
            sent_at=float(data["sent_at"]),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluated:
    """Result of one sample on its way back.

    Attributes:
        sample_id: Id of the sample.
        outcomes: Outcome by metric id.
        start: Start of the evaluation in nanoseconds since the epoch.
        end: End of the evaluation in nanoseconds since the epoch.
    """

    sample_id: str
    outcomes: Outcomes
    start: int
    end: int


def reply_text(results: Sequence[Evaluated]) -> str:
    """Return the message with results."""
    plain = [
        {
            "sample_id": one.sample_id,
            "start": one.start,
            "end": one.end,
            "outcomes": {name: outcome_to_dict(each) for name, each in one.outcomes.items()},
        }
        for one in results
    ]
    return json.dumps({"schema": SCHEMA, "results": plain}, default=str, separators=(",", ":"))


def replies(text: str) -> Sequence[Evaluated]:
    """Return the results of a message.

    Raises:
        Exception: It has another shape.
    """
    return [
        Evaluated(
            sample_id=str(one["sample_id"]),
            outcomes={name: outcome_from_dict(each) for name, each in one["outcomes"].items()},
            start=int(one["start"]),
            end=int(one["end"]),
        )
        for one in json.loads(text)["results"]
    ]
