-- Set the stop flag and wake the writer, or end a queued response on the spot. PROTOCOL 6, 10
-- KEYS 1 log  2 meta  3 run
-- ARGV 1 reason  2 ended event with seq 0 and epoch 0  3 channel  4 stops channel  5 response id  6 lease ms
-- reply 'missing', 'ended', 'closed' or 'flagged'. The first reason stays.
local m = redis.call('HMGET', KEYS[2], 'state', 'epoch', 'seq', 'created')
if not m[1] or redis.call('EXISTS', KEYS[1]) == 0 then return 'missing' end
if m[1] == 'ended' then return 'ended' end
redis.call('HSETNX', KEYS[2], 'stop', ARGV[1])
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
if m[1] ~= 'queued' or grace_left(KEYS[3], m[4] or 0, now, ARGV[6]) > 0 then
  redis.call('SPUBLISH', ARGV[4], ARGV[5] .. ' ' .. redis.call('HGET', KEYS[2], 'stop'))
  return 'flagged'
end
local epoch, seq = string.format('%.0f', math.max(m[2] + 1, now)), m[3] + 1
local event = string.gsub(ARGV[2], '"seq":0,', '"seq":' .. seq .. ',', 1)
event = string.gsub(event, '"epoch":0,', '"epoch":' .. epoch .. ',', 1)
redis.call('XADD', KEYS[1], seq .. '-0', 'e', epoch, 'd', event)
redis.call('HSET', KEYS[2], 'state', 'ended', 'epoch', epoch, 'te', epoch, 'seq', seq)
redis.call('SPUBLISH', ARGV[3], epoch .. ' ' .. seq .. '\n' .. event)
return 'closed'
