-- A viewer is still here and was handed events up to a seq. Nobody who left comes back so; whoever else is not known
-- was forgotten by the store. PROTOCOL 7, 8
-- KEYS 1 viewers  2 meta     ARGV 1 viewer, or '' for one that has gone  2 grace ms  3 delivered seq
local m = redis.call('HMGET', KEYS[2], 'ca', 'delivered')
if ARGV[1] ~= '' and not redis.call('ZSCORE', KEYS[1], 'left:' .. ARGV[1])
  and (not m[1] or redis.call('EXISTS', KEYS[1]) == 1) then
  local t = redis.call('TIME')
  local now = t[1] * 1000 + math.floor(t[2] / 1000)
  redis.call('ZADD', KEYS[1], now + ARGV[2] + math.max(0, m[1] or 0), ARGV[1])
  redis.call('ZREM', KEYS[1], 'creator')
  if not m[1] then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
end
if m[1] and tonumber(ARGV[3]) > tonumber(m[2]) then redis.call('HSET', KEYS[2], 'delivered', ARGV[3]) end
return 1
