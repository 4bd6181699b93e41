"""Evaluates samples in Celery workers on other machines, over Redis or RabbitMQ.

The application sends each sample as one task. The application's outbox keeps the sample until the
result arrives. Celery provides late acknowledgement, redelivery, priorities and expiry of results.
"""

from rag_eval_hooks_celery.app import Fleet, fleet_of

__all__ = ["Fleet", "fleet_of"]
