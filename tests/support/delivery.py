"""A dispatcher with an outbox of its own, in memory or in a folder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rag_eval_hooks.config.settings import RagEvalConfig
from rag_eval_hooks.delivery import Dispatch, sink_list
from rag_eval_hooks.delivery.codec import from_text
from rag_eval_hooks.delivery.outbox import Job, Outbox
from rag_eval_hooks.delivery.outbox_file import EVALUATE
from rag_eval_hooks.delivery.sink_queue import Limits
from rag_eval_hooks.incidents import Incidents
from rag_eval_hooks.result import Evaluation


class Dispatched:
    """A dispatcher, with what it counts."""

    def __init__(
        self, *sinks: Any, limits: Limits | None = None, folder: Path | None = None, **config: Any
    ) -> None:
        settings = RagEvalConfig(**config)
        self.incidents = Incidents()
        self.outbox = Outbox(folder, max_bytes=1_000_000_000, incidents=self.incidents)
        self.dispatch = Dispatch(
            sink_list(sinks, settings),
            settings,
            self.incidents,
            self.outbox,
            revive=_revived,
            limits=limits,
        )
        self.outbox.start()

    def put(self, *evaluations: Evaluation) -> None:
        """Store results, and hand them to the sinks."""
        for evaluation in evaluations:
            jobs = self.dispatch.jobs(evaluation)
            assert self.outbox.done(Job(EVALUATE), "scored", jobs).result(60)
            self.dispatch.put(jobs)

    def counts(self) -> Mapping[str, int]:
        return self.incidents.counts()

    def close(self) -> None:
        self.dispatch.close()
        self.outbox.close(10)


def _revived(text: str) -> Evaluation:
    stored = from_text(text)
    return Evaluation(
        sample=stored.sample,
        outcomes=stored.outcomes,
        probability=stored.probability,
        reason=stored.reason,
        start=stored.start,
        end=stored.end,
    )
