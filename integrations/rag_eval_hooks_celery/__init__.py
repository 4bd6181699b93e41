"""Evaluates samples in Celery workers on other machines, over Redis or RabbitMQ.

The application sends each sample as one task. Its outbox keeps the sample until the result arrives.
"""

from rag_eval_hooks_celery.app import Fleet, fleet_of

__all__ = ["Fleet", "fleet_of"]
