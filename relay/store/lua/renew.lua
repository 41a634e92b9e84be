-- Keep lease and job alive and hear of stops and of abandonment. PROTOCOL 2, 6, 7
-- KEYS 1 log  2 meta  3 jobs  4 viewers  5 run
-- ARGV 1 epoch  2 lease_until last given  3 lease ms  4 entry id  5 worker  6 group  7 ttl ms  8 two heartbeats in ms
-- reply {how, seq, lease_until, stop, abandoned}
local m = redis.call('HMGET', KEYS[2], 'state', 'epoch', 'seq', 'stop', 'ca', 'acked', 'created')
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
if not m[1] or tonumber(m[2]) ~= tonumber(ARGV[1]) then return unknown(m[2], ARGV[1], ARGV[2]) end
local ended = m[1] == 'ended'
if not ended and now > tonumber(ARGV[2]) then return {'fenced'} end
redis.call('XCLAIM', KEYS[3], ARGV[6], ARGV[5], 0, ARGV[4], 'IDLE', 0, 'JUSTID')
if not m[6] then -- a renewal that was on its way while its job was acked must not undo the retention
  for _, key in ipairs({KEYS[1], KEYS[2], KEYS[4]}) do redis.call('PEXPIRE', key, ARGV[7]) end
end
local seq = tonumber(m[3])
if ended then return {'closed', seq, now + ARGV[3], '', 0} end
redis.call('HSET', KEYS[2], 'lease_until', now + ARGV[3])
return {'ok', seq, now + ARGV[3], m[4] or '', abandoned(KEYS[4], m[5], m[7], KEYS[5], now, ARGV[8])}
