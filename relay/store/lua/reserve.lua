-- KEYS 1 running  2 held  3 used
-- ARGV 1 response id  2 until (ms)  3 tokens to hold  4 max running  5 max tokens  6 TTL of 1 and 2 (ms); a limit of 0 is none
-- reply {outcome, used tokens, running responses…}, or {'unknown', 0, the server's run}. Safe to repeat: what is reserved or settled is not counted again.
local rid = ARGV[1]
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local lapsed = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now)
for _, other in ipairs(lapsed) do
  redis.call('ZREM', KEYS[1], other)
  redis.call('HDEL', KEYS[2], other)
end
if redis.call('ZSCORE', KEYS[1], rid) then return {'held', 0} end
if redis.call('HEXISTS', KEYS[3], rid) == 1 then return {'settled', 0} end
-- What an earlier server confirmed may be lost: only the records know.
local run = run_id()
if redis.call('HGET', KEYS[3], 'whole') ~= run then return {'unknown', 0, run} end
local used = tonumber(redis.call('HGET', KEYS[3], 'total') or 0)
local max_running, max_tokens = tonumber(ARGV[4]), tonumber(ARGV[5])
if max_running > 0 and redis.call('ZCARD', KEYS[1]) >= max_running then
  return {'running', used, unpack(redis.call('ZRANGE', KEYS[1], 0, 199))}
end
if max_tokens > 0 then
  local held = 0
  for _, tokens in ipairs(redis.call('HVALS', KEYS[2])) do held = held + tokens end
  if used + held >= max_tokens then
    return {'tokens', used, unpack(redis.call('ZRANGE', KEYS[1], 0, 199))}
  end
end
redis.call('ZADD', KEYS[1], ARGV[2], rid)
redis.call('PEXPIRE', KEYS[1], ARGV[6])
if ARGV[3] ~= '0' then
  redis.call('HSET', KEYS[2], rid, ARGV[3])
  redis.call('PEXPIRE', KEYS[2], ARGV[6])
end
return {'granted', used}
