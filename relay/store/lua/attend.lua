-- A viewer is here: the creator's mark is no longer needed. PROTOCOL 7
-- KEYS 1 viewers  2 meta     ARGV 1 viewer  2 grace ms
-- reply how many viewers are present
local ca = redis.call('HGET', KEYS[2], 'ca')
if ca and redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
redis.call('ZADD', KEYS[1], now + ARGV[2] + math.max(0, ca or 0), ARGV[1])
redis.call('ZREM', KEYS[1], 'creator', 'left:' .. ARGV[1])
if not ca then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end -- perhaps there will be a log, perhaps never
local count = 0
for _, member in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], now, '+inf')) do
  if member ~= 'restored' and string.sub(member, 1, 5) ~= 'left:' then count = count + 1 end
end
return count
