"""Amounts spent of a budget in Redis, shared by all machines that name it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from rag_eval_hooks.judges.calls.budget_store import BUSY_S, KEPT_S, LONGEST_TURN, Period, Spend

__all__ = ["RedisStore"]

_PREFIX: Final = "rag_eval:budget:"
_RESERVE: Final = """
for i = 1, #KEYS do
  for j = 1, 3 do
    local most = ARGV[3 + (i - 1) * 3 + j]
    local spent = tonumber(redis.call('HGET', KEYS[i], j) or 0)
    if most ~= 'inf' and spent + tonumber(ARGV[j]) > tonumber(most) then return i end
  end
end
for i = 1, #KEYS do
  for j = 1, 3 do redis.call('HINCRBYFLOAT', KEYS[i], j, ARGV[j]) end
  redis.call('EXPIRE', KEYS[i], ARGV[#ARGV])
end
return 0
"""
_NEXT_TURN: Final = """
local clock = redis.call('TIME')
local now = clock[1] + clock[2] / 1e6
local at = math.max(tonumber(redis.call('GET', KEYS[1]) or 0), now)
if at - now <= tonumber(ARGV[2]) then
  redis.call('SET', KEYS[1], string.format('%.6f', at + ARGV[1]), 'EX', 3600)
end
return string.format('%.6f', at - now)
"""


class RedisStore:
    """Amounts in Redis, shared by all machines that name it; each applies its own limits.

    Every method raises `OSError` while Redis cannot be used.

    Args:
        url: URL of Redis.

    Raises:
        ImportError: The extra `celery`, which brings the client, is not installed.
    """

    def __init__(self, url: str) -> None:
        import redis

        self._errors = redis.RedisError
        self._redis: Any = redis.Redis.from_url(
            url, socket_timeout=BUSY_S, socket_connect_timeout=BUSY_S, decode_responses=True
        )
        self._reserve = self._redis.register_script(_RESERVE)
        self._next_turn = self._redis.register_script(_NEXT_TURN)

    def reserve(self, periods: Sequence[Period], amount: Spend) -> Period | None:
        """Add an amount to every period, or to none, in one step."""
        most = [part for period in periods for part in _parts(period.limit)]
        with self._edge():
            keys = list(map(_key, periods))
            number = int(self._reserve(keys=keys, args=[*_parts(amount), *most, KEPT_S]))
        return periods[number - 1] if number else None

    def add(self, periods: Sequence[Period], amount: Spend) -> None:
        """Add an amount to every period."""
        with self._edge(), self._redis.pipeline() as pipe:
            for period in periods:
                for number, part in enumerate(_parts(amount), 1):
                    pipe.hincrbyfloat(_key(period), number, part)
                pipe.expire(_key(period), KEPT_S)
            pipe.execute()

    def turn(self, interval: float, now: float) -> float:
        """Give a call its turn by the clock of Redis; see `MemoryStore.turn`."""
        with self._edge():
            return float(self._next_turn(keys=[f"{_PREFIX}turn"], args=[interval, LONGEST_TURN]))

    def spent(self, period: Period) -> Spend:
        """Return the amount that all processes have added to a period so far."""
        with self._edge():
            values = self._redis.hmget(_key(period), 1, 2, 3)
        return Spend(*(float(value or 0) for value in values))

    def forked(self) -> None:
        """Do nothing: the client opens connections of its own in a child."""

    def close(self) -> None:
        """Close the connections."""
        self._redis.close()

    @contextmanager
    def _edge(self) -> Iterator[None]:
        try:
            yield
        except self._errors as error:
            raise OSError(f"Redis: {type(error).__name__}") from error


def _parts(amount: Spend) -> tuple[float, float, float]:
    return amount.calls, amount.tokens, amount.cost


def _key(period: Period) -> str:
    return f"{_PREFIX}{period.name}:{period.start}"
