"""Evaluates samples in Celery workers on other machines, over Redis or RabbitMQ.

The application sends each sample as one task. The sample stays in the application's outbox until
the result backend has the result. Celery does the rest: late acknowledgement, redelivery after the
visibility timeout, priorities, and expiry of results.
"""

from rag_eval_hooks_celery.app import Fleet, fleet_of

__all__ = ["Fleet", "fleet_of"]
