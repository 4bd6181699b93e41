"""A dispatcher with an outbox of its own, in memory or in a folder."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from rag_eval_hooks.config.settings import RagEvalConfig
from rag_eval_hooks.delivery.codec import from_text
from rag_eval_hooks.delivery.dispatch import Dispatch, sink_list
from rag_eval_hooks.delivery.outbox import Outbox
from rag_eval_hooks.delivery.outbox_file import EVALUATE, Job
from rag_eval_hooks.delivery.platforms.langfuse import LangfuseSink
from rag_eval_hooks.delivery.platforms.mlflow import MlflowSink
from rag_eval_hooks.delivery.platforms.phoenix import PhoenixSink
from rag_eval_hooks.delivery.platforms.platform_sink import PlatformSink
from rag_eval_hooks.incidents import Incidents
from rag_eval_hooks.result import Evaluation
from tests.support.limits import small_limits

PLATFORMS: dict[str, Callable[[str], PlatformSink]] = {
    "phoenix": lambda url: PhoenixSink(url, api_key="sk-secret"),
    "mlflow": lambda url: MlflowSink(url, token="sk-secret"),
    "langfuse": lambda url: LangfuseSink(url, public_key="pk", secret_key="sk-secret"),
}


class Dispatched:
    def __init__(self, *sinks: Any, folder: Path | None = None, **config: Any) -> None:
        self.incidents = Incidents()
        self.outbox = Outbox(folder, max_bytes=1_000_000_000, incidents=self.incidents)
        with small_limits(config):
            settings = RagEvalConfig(**config)
            specs = sink_list(sinks, settings)
            self.dispatch = Dispatch(specs, settings, self.incidents, self.outbox, revive=from_text)
        self.outbox.start()

    def put(self, *evaluations: Evaluation) -> None:
        for evaluation in evaluations:
            sinks, job = self.dispatch.sinks_of(evaluation), None
            if self.outbox.is_durable:
                job = Job({*sinks}, self.dispatch.encoder(evaluation))
                assert self.outbox.end(job, EVALUATE).result(60)
            self.dispatch.put(evaluation, sinks, job)

    def counts(self) -> Mapping[str, int]:
        return self.incidents.counts()

    def lost(self) -> int:
        return sum(n for told, n in self.counts().items() if "results are lost" in told)

    def waiting(self) -> int:
        queues = self.dispatch._queues.values()
        return sum(len(one._waiting) + len(one._flying) for one in queues)

    def capacity(self) -> int:
        return sum(one.capacity() for one in self.dispatch._queues.values())

    def close(self) -> None:
        self.dispatch.close()
        self.outbox.close(10)
