"""Evaluates samples in Celery workers on other machines, over Redis or RabbitMQ.

The application sends each sample as one task. Its outbox keeps the sample until the result arrives.
"""

from rag_eval_hooks_celery.app import fleet_of
from rag_eval_hooks_celery.publish import Publisher

__all__ = ["Publisher", "fleet_of"]
