-- A viewer is still here and was handed events up to a seq; a presence that is gone stays gone. PROTOCOL 7, 8
-- After a restore, which knows of nobody, a presence is made of whoever did not leave since. PROTOCOL 10
-- KEYS 1 viewers  2 meta     ARGV 1 viewer  2 grace ms  3 delivered seq
local m = redis.call('HMGET', KEYS[2], 'ca', 'delivered')
if not m[1] then return 0 end
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local flag = 'XX'
if ARGV[1] ~= '' and redis.call('ZSCORE', KEYS[1], 'restored') and not redis.call('ZSCORE', KEYS[1], 'left:' .. ARGV[1]) then
  flag = 'CH' -- changes nothing but the count of the reply
end
redis.call('ZADD', KEYS[1], flag, now + ARGV[2] + math.max(0, m[1]), ARGV[1])
if tonumber(ARGV[3]) > tonumber(m[2]) then redis.call('HSET', KEYS[2], 'delivered', ARGV[3]) end
return 1
