"""The audio cache in Redis, shared by all servers of one database.

Values expire by themselves. What they take, and when each was used, is counted beside them by scripts, so that the room
is bounded exactly, however many processes write. All keys share a hash tag, as a cluster's scripts need.
"""

import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any

import redis

from store.audio_cache import Bounds, PlaceFault

# A request waits for Redis no longer than this, then goes without.
_PATIENCE_S = 0.25
_REMOVE = """
local function remove(base, member)
  local size = redis.call('HGET', base .. ':sizes', member)
  if size then redis.call('DECRBY', base .. ':bytes', size) end
  redis.call('HDEL', base .. ':sizes', member)
  redis.call('ZREM', base .. ':used', member)
  redis.call('DEL', base .. ':value:' .. member)
  local speaker = string.match(member, '^[^/]+')
  redis.call('SREM', base .. ':of:' .. speaker, member)
end
"""
_GET = """
local value = redis.call('GET', KEYS[1] .. ':value:' .. ARGV[1])
if value then redis.call('ZADD', KEYS[1] .. ':used', 'XX', ARGV[2], ARGV[1]) end
return value
"""
_PUT = (
    _REMOVE
    + """
local base, member, now = KEYS[1], ARGV[1], tonumber(ARGV[2])
remove(base, member)
redis.call('SET', base .. ':value:' .. member, ARGV[5], 'PX', ARGV[4])
redis.call('HSET', base .. ':sizes', member, #ARGV[5])
redis.call('INCRBY', base .. ':bytes', #ARGV[5])
redis.call('ZADD', base .. ':used', now, member)
redis.call('SADD', base .. ':of:' .. string.match(member, '^[^/]+'), member)
while tonumber(redis.call('GET', base .. ':bytes')) > tonumber(ARGV[3]) do
  local oldest = redis.call('ZRANGE', base .. ':used', 0, 0)[1]
  if not oldest then redis.call('SET', base .. ':bytes', 0) break end
  remove(base, oldest)
end
"""
)
_SWEEP = (
    _REMOVE
    + """
for _, member in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1] .. ':used', '-inf', ARGV[1], 'LIMIT', 0, 1000)) do
  remove(KEYS[1], member)
end
"""
)
_DROP = (
    _REMOVE
    + """
for _, member in ipairs(redis.call('SMEMBERS', KEYS[1] .. ':of:' .. ARGV[1])) do remove(KEYS[1], member) end
"""
)


class RedisPlace:
    """Values by speaker and key; what was used longest ago goes first."""

    is_shared = True

    def __init__(self, url: str, bounds: Bounds, store_id: str) -> None:
        with _faults():
            self._client: Any = redis.Redis.from_url(
                url, socket_timeout=_PATIENCE_S, socket_connect_timeout=_PATIENCE_S
            )
        self._bounds = bounds
        self._base = f"voicekin:{{{store_id}}}:audio"
        self._get, self._put, self._sweep, self._drop = map(self._client.register_script, (_GET, _PUT, _SWEEP, _DROP))

    def get(self, speaker_id: str, key: str) -> bytes | None:
        with _faults():
            found: bytes | None = self._get([self._base], [f"{speaker_id}/{key}", time.time()])
            return found

    def put(self, speaker_id: str, key: str, data: bytes) -> None:
        room = self._bounds.max_bytes, max(1, round(self._bounds.max_age_s * 1000))
        with _faults():
            self._put([self._base], [f"{speaker_id}/{key}", time.time(), *room, data])

    def drop(self, speaker_ids: Collection[str]) -> None:
        with _faults():
            for speaker_id in speaker_ids:
                self._drop([self._base], [speaker_id])

    def speakers(self) -> set[str]:
        with _faults():
            members = self._client.zscan_iter(f"{self._base}:used")
            return {member.decode().partition("/")[0] for member, _ in members}

    def sweep(self) -> None:
        with _faults():
            self._sweep([self._base], [time.time() - self._bounds.max_age_s])

    def close(self) -> None:
        self._client.close()


@contextmanager
def _faults() -> Iterator[None]:
    try:
        yield
    except (redis.RedisError, ValueError) as error:
        raise PlaceFault(f"Redis: {error}") from error
