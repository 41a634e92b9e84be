-- Append numbered events, or append the last ones and close: one rule (PROTOCOL 3). Loaded twice, since only
-- a close may run when the server is out of memory.
-- KEYS 1 log  2 meta
-- ARGV 1 epoch  2 lease_until the writer was last given  3 lease ms  4 max bytes, or -1  5 has content
--      6 channel  7 closing  8 output tokens counted so far  9 first seq  10… events
-- reply {how, seq, lease_until, stop}; 'lost': restore it. Compares per event, so it is safe to repeat after an unknown outcome.
local m = redis.call('HMGET', KEYS[2], 'state', 'epoch', 'seq', 'bytes', 'stop')
if not m[1] or tonumber(m[2]) ~= tonumber(ARGV[1]) then return unknown(m[2], ARGV[1], ARGV[2]) end
local tail = tonumber(m[3])
if m[1] == 'ended' then return {'closed', tail, 0, ''} end
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
if now > tonumber(ARGV[2]) then return {'fenced'} end
local first, stop = tonumber(ARGV[9]), m[5] or ''
local lease_until = now + ARGV[3]
if first > tail + 1 then
  redis.call('HSET', KEYS[2], 'lease_until', lease_until)
  return {'gap', tail, lease_until, stop}
end
local from, last = tail - first + 11, #ARGV
local bytes = 0
for i = from, last do bytes = bytes + #ARGV[i] end
local content = ARGV[5] == '1'
if content and tonumber(ARGV[4]) >= 0 and m[4] + bytes > tonumber(ARGV[4]) then
  redis.call('HSET', KEYS[2], 'lease_until', lease_until)
  return {'full', tail, lease_until, stop}
end
local seq = tail
for i = from, last do
  seq = seq + 1
  redis.call('XADD', KEYS[1], seq .. '-0', 'e', ARGV[1], 'd', ARGV[i])
end
if content then
  redis.call('HSET', KEYS[2], 'seq', seq, 'te', ARGV[1], 'lease_until', lease_until, 'out', ARGV[8],
    'bytes', m[4] + bytes, 'content', 1)
else
  redis.call('HSET', KEYS[2], 'seq', seq, 'te', ARGV[1], 'lease_until', lease_until, 'out', ARGV[8])
end
if ARGV[7] == '1' then redis.call('HSET', KEYS[2], 'state', 'ended') end
if seq > tail then
  redis.call('SPUBLISH', ARGV[6], ARGV[1] .. ' ' .. (tail + 1) .. '\n' .. table.concat(ARGV, '\n', from, last))
end
return {'ok', seq, lease_until, stop}
