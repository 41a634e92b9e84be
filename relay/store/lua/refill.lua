-- KEYS 1 running  2 held  3 used  4 used the day before
-- ARGV 1 the server's run in which the records were read, or '' (more is to be brought)  2 when `used` ends (ms)  3 TTL of 1 and 2 (ms)  4 how many ended  5… id and tokens of each,
--      then id, until (ms) and tokens to hold of each that runs
-- Adds only what is missing, so it commutes with every settle, whichever comes first.
local at = 5
for _ = 1, tonumber(ARGV[4]) do
  local rid, tokens = ARGV[at], ARGV[at + 1]
  if redis.call('HSETNX', KEYS[3], rid, tokens) == 1 then redis.call('HINCRBY', KEYS[3], 'total', tokens) end
  redis.call('ZREM', KEYS[1], rid)
  redis.call('HDEL', KEYS[2], rid)
  at = at + 2
end
while ARGV[at] do
  local rid = ARGV[at]
  if redis.call('HEXISTS', KEYS[3], rid) == 0 and redis.call('HEXISTS', KEYS[4], rid) == 0 then
    redis.call('ZADD', KEYS[1], ARGV[at + 1], rid)
    redis.call('PEXPIRE', KEYS[1], ARGV[3])
    if ARGV[at + 2] ~= '0' then
      redis.call('HSET', KEYS[2], rid, ARGV[at + 2])
      redis.call('PEXPIRE', KEYS[2], ARGV[3])
    end
  end
  at = at + 3
end
if ARGV[1] ~= '' then redis.call('HSET', KEYS[3], 'whole', ARGV[1]) end
redis.call('PEXPIREAT', KEYS[3], ARGV[2])
return 1
