-- End a response whose time is over and that no live writer holds. PROTOCOL 9, 10
-- KEYS 1 log  2 meta  3 run
-- ARGV 1 ended event if its upstream was never opened  2 ended event otherwise  3 channel  4 lease ms
-- reply 1 this call ended it, 0 not
local m = redis.call('HMGET', KEYS[2], 'state', 'epoch', 'seq', 'lease_until', 'attempt', 'created')
if not m[1] or m[1] == 'ended' or redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
if tonumber(m[4]) > now or grace_left(KEYS[3], m[6] or 0, now, ARGV[4]) > 0 then return 0 end
local epoch, seq = string.format('%.0f', math.max(m[2] + 1, now)), m[3] + 1
local event = string.gsub(m[5] == '0' and ARGV[1] or ARGV[2], '"seq":0,', '"seq":' .. seq .. ',', 1)
event = string.gsub(event, '"epoch":0,', '"epoch":' .. epoch .. ',', 1)
redis.call('XADD', KEYS[1], seq .. '-0', 'e', epoch, 'd', event)
redis.call('HSET', KEYS[2], 'state', 'ended', 'epoch', epoch, 'te', epoch, 'seq', seq)
redis.call('SPUBLISH', ARGV[3], epoch .. ' ' .. seq .. '\n' .. event)
return 1
