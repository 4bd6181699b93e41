"""Redis of a fleet: open batches and who has them, what became of the samples, living workers."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from enum import Enum
from typing import Any, Final

from rag_eval_hooks.fleet.broker import lane_of

__all__ = ["ALIVE_S", "Claim", "FleetStore"]

ALIVE_S: Final = 30
"""Seconds without a beat after which a worker is taken for dead."""
_SWEEP_S: Final = 15
"""Seconds between two looks for lost batches, of all workers together."""
_PREFIX: Final = "rag_eval:"
_TIMEOUT: Final = 10.0
_WITHDRAWN_S: Final = 7 * 24 * 3600
"""Seconds for which a withdrawn batch is remembered: its message may wait in a long queue."""
_TOGETHER_S: Final = 10
"""Seconds within which all workers beat: Redis may have been away for longer than `ALIVE_S`."""
_KEEP: Final = """
if redis.call('EXISTS', KEYS[1]) == 1 then return end
-- A full Redis takes no notes of workers either, and would stay full.
local info = redis.pcall('INFO', 'memory')
local most = type(info) == 'string' and tonumber(string.match(info, 'maxmemory:(%d+)')) or 0
if most > 0 and tonumber(string.match(info, 'used_memory:(%d+)')) > 0.9 * most then
  return redis.error_reply('OOM 90 % of maxmemory are used')
end
if not redis.call('SET', KEYS[2], ARGV[1], 'NX') then return end
redis.call('ZADD', KEYS[3], redis.call('TIME')[1], ARGV[2])
for i = 3, #ARGV, 2 do redis.call('HINCRBY', KEYS[4], ARGV[i], ARGV[i + 1]) end
"""
_WITHDRAW: Final = """
local held = redis.call('GET', KEYS[1])
if held then return held == 'withdrawn' and 1 or 0 end
redis.call('SET', KEYS[1], 'withdrawn', 'EX', ARGV[1])
if redis.call('DEL', KEYS[2]) == 1 then
  redis.call('ZREM', KEYS[3], ARGV[2])
  redis.call('HINCRBY', KEYS[4], 'shipped', -ARGV[3])
end
return 1
"""
_DEAD: Final = f"""
local function is_dead(prefix, held)
  local worker = prefix .. 'worker:' .. string.match(held, '^[^#]*')
  if redis.call('EXISTS', worker) == 1 then return false end
  local since = redis.call('GET', prefix .. 'beating')
  return since and redis.call('TIME')[1] - since > {_TOGETHER_S}
end
"""
_LOST: Final = f"""{_DEAD}
local found, now = {{}}, redis.call('TIME')[1]
local old = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now - ARGV[2], 'LIMIT', 0, 1000)
for _, id in ipairs(old) do
  local held = redis.call('GET', ARGV[1] .. 'batch:' .. id)
  if redis.call('EXISTS', ARGV[1] .. 'text:' .. id) == 0 then
    redis.call('ZREM', KEYS[1], id)
  else
    redis.call('ZADD', KEYS[1], now, id)
    local is_lost = ARGV[3] == '1'
    if held then is_lost = is_dead(ARGV[1], held) end
    if is_lost then table.insert(found, id) end
  end
end
return found
"""
_CLAIM: Final = f"""{_DEAD}
local held = redis.call('GET', KEYS[1])
if held == 'done' or held == 'withdrawn' then return 'done' end
-- The answer to the same claim may have been lost.
if held == ARGV[1] then return 'free' end
if held and not is_dead(ARGV[2], held) then return 'busy' end
redis.call('SET', KEYS[1], ARGV[1], 'EX', ARGV[3])
return held and 'suspect' or 'free'
"""
_FINISH: Final = """
local held = redis.call('GET', KEYS[1])
if held and held ~= ARGV[2] then return 0 end
redis.call('SET', KEYS[1], 'done', 'EX', ARGV[1])
redis.call('DEL', KEYS[2])
redis.call('ZREM', KEYS[3], ARGV[3])
for i = 4, #ARGV, 2 do redis.call('HINCRBY', KEYS[4], ARGV[i], ARGV[i + 1]) end
return 1
"""
_BEAT: Final = """
redis.call('SET', KEYS[1], 1, 'EX', ARGV[1])
-- Since when workers beat without a gap.
redis.call('SET', KEYS[2], redis.call('TIME')[1], 'NX')
redis.call('EXPIRE', KEYS[2], ARGV[1])
"""
_RELEASE: Final = """
if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end
"""


class Claim(Enum):
    """Answer to a claim of a batch."""

    FREE = "free"
    """It is the caller's, and was nobody's before."""
    SUSPECT = "suspect"
    """It is the caller's; a worker that had it before died."""
    BUSY = "busy"
    """A worker that lives has it."""
    DONE = "done"
    """It is finished, or withdrawn."""


class FleetStore:
    """Texts of open batches, claims, counts and living workers, in Redis. Thread-safe.

    Every method raises `redis.RedisError` while Redis cannot be used.

    Args:
        url: URL of Redis.
        keep: Seconds for which a finished batch is remembered; longer than it may come again.
    """

    def __init__(self, url: str, keep: float) -> None:
        import redis

        self._redis: Any = redis.Redis.from_url(
            url,
            socket_timeout=_TIMEOUT,
            socket_connect_timeout=_TIMEOUT,
            health_check_interval=30,
        )
        self._keep = int(keep)
        self._keep_text = self._redis.register_script(_KEEP)
        self._withdraw = self._redis.register_script(_WITHDRAW)
        self._lost = self._redis.register_script(_LOST)
        self._beat = self._redis.register_script(_BEAT)
        self._claim = self._redis.register_script(_CLAIM)
        self._finish = self._redis.register_script(_FINISH)
        self._release = self._redis.register_script(_RELEASE)

    def keep(self, batch_id: str, service: str, text: str, entries: Mapping[str, int]) -> None:
        """Keep the text of a batch until it is finished, and count its samples; once for an id.

        Redis as a broker forgets a message at its delivery, before the worker has noted it.
        """
        counts = [part for entry, count in entries.items() for part in (entry, count)]
        args = [zlib.compress(text.encode()), batch_id, *counts]
        self._keep_text(keys=self._keys(batch_id, service), args=args)

    def withdraw(self, batch_id: str, service: str, samples: int) -> bool:
        """Keep workers from a batch that may have arrived, or may still do so.

        Returns:
            False if a worker has it, or had it.
        """
        args = [_WITHDRAWN_S, batch_id, samples]
        return bool(self._withdraw(keys=self._keys(batch_id, service), args=args))

    def text(self, batch_id: str) -> str | None:
        """Return the text of a batch, or None if it is finished."""
        kept = self._redis.get(f"{_PREFIX}text:{batch_id}")
        return None if kept is None else zlib.decompress(kept).decode()

    def may_look(self) -> bool:
        """Return whether it is time to look for lost batches; True for one worker at a time."""
        return bool(self._redis.set(f"{_PREFIX}look", 1, nx=True, ex=_SWEEP_S))

    def lost(self, lane: str, *, is_empty: bool, age: int = ALIVE_S) -> list[str]:
        """Return the batches that no worker has, though no message of them waits; each once.

        Args:
            lane: Queue of the batches.
            is_empty: Whether no message waits in it. If one does, only batches of dead workers
                are known to be lost.
            age: Seconds for which a batch must have been open, or not been returned.
        """
        args = [_PREFIX, age, int(is_empty)]
        found = self._lost(keys=[f"{_PREFIX}open:{lane}"], args=args)
        return [batch_id.decode() for batch_id in found]

    @staticmethod
    def _keys(batch_id: str, service: str) -> list[str]:
        return [
            f"{_PREFIX}batch:{batch_id}",
            f"{_PREFIX}text:{batch_id}",
            f"{_PREFIX}open:{lane_of(service)}",
            f"{_PREFIX}books:{service}",
        ]

    def claim(self, batch_id: str, holder: str) -> Claim:
        """Claim a batch for one delivery: `<worker>#<delivery>`."""
        keys = [f"{_PREFIX}batch:{batch_id}"]
        return Claim(self._claim(keys=keys, args=[holder, _PREFIX, self._keep]).decode())

    def release(self, batch_id: str, holder: str) -> None:
        """Give a batch back, unless it is finished or another's."""
        self._release(keys=[f"{_PREFIX}batch:{batch_id}"], args=[holder])

    def finish(self, batch_id: str, holder: str, service: str, entries: Mapping[str, int]) -> bool:
        """Mark a batch, or a single sample of a suspect one, as finished and count its samples.

        Args:
            batch_id: Id of the batch.
            holder: Delivery that claimed it; nothing is counted if another has it now.
            service: Service of the application.
            entries: Samples by column and reason, such as `scored` or `failed:timeout`.

        Returns:
            Whether it was neither finished before nor another's; only then it is counted.
        """
        counts = [part for entry, count in entries.items() for part in (entry, count)]
        args = [self._keep, holder, batch_id, *counts]
        return bool(self._finish(keys=self._keys(batch_id, service), args=args))

    def is_finished(self, batch_id: str) -> bool:
        """Return whether a batch was finished."""
        return bool(self._redis.get(f"{_PREFIX}batch:{batch_id}") == b"done")

    def tried(self, sample_id: str) -> int:
        """Count an evaluation of a single sample; return those that were begun before."""
        key = f"{_PREFIX}tries:{sample_id}"
        with self._redis.pipeline() as pipe:
            pipe.incr(key)
            pipe.expire(key, self._keep)
            return int(pipe.execute()[0]) - 1

    def forget_tries(self, sample_id: str) -> None:
        """Forget the evaluations of a sample that were begun."""
        self._redis.delete(f"{_PREFIX}tries:{sample_id}")

    def count(self, service: str, entry: str, samples: int) -> None:
        """Count samples of a service."""
        self._redis.hincrby(f"{_PREFIX}books:{service}", entry, samples)

    def books(self) -> dict[str, dict[str, int]]:
        """Return the counts by service and entry, `shipped` among them."""
        prefix = f"{_PREFIX}books:"
        return {
            service: {
                entry.decode(): int(count)
                for entry, count in self._redis.hgetall(f"{prefix}{service}").items()
            }
            for service in self._named(prefix)
        }

    def beat(self, worker: str) -> None:
        """Note that a worker lives."""
        self._beat(keys=[f"{_PREFIX}worker:{worker}", f"{_PREFIX}beating"], args=[ALIVE_S])

    def bury(self, worker: str) -> None:
        """Note that a worker has ended."""
        self._redis.delete(f"{_PREFIX}worker:{worker}")

    def workers(self) -> list[str]:
        """Return the names of the workers that live."""
        return self._named(f"{_PREFIX}worker:")

    def _named(self, prefix: str) -> list[str]:
        """Return what follows a prefix of keys."""
        keys = self._redis.scan_iter(f"{prefix}*")
        return sorted(key.decode().removeprefix(prefix) for key in keys)

    def close(self) -> None:
        """Close the connections."""
        self._redis.close()
