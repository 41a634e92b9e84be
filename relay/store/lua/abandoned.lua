-- PROTOCOL 7
-- KEYS 1 viewers  2 meta  3 run     ARGV 1 two heartbeats in ms     reply 1 or 0
local m = redis.call('HMGET', KEYS[2], 'ca', 'created')
local t = redis.call('TIME')
return abandoned(KEYS[1], m[1], m[2], KEYS[3], t[1] * 1000 + math.floor(t[2] / 1000), ARGV[1])
