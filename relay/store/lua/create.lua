-- Make log (event 1), meta, the creator's presence and the job together. PROTOCOL 1, 7, 10
-- KEYS 1 log  2 meta  3 jobs  4 viewers
-- ARGV 1 created event  2 response id  3 upstream model as JSON string  4 deadline ms  5 cancel_after ms or -1
--      6 leave_after ms or -1  7 grace ms  8 ttl ms  9 channel  10 created ms  11 whom to wait for: 'creator', or
--      'restored' for a log that is made again
-- reply 1 created, 0 it was there already. Safe to repeat.
if redis.call('EXISTS', KEYS[2]) == 1 and redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
if redis.call('HEXISTS', KEYS[2], 'ca') == 0 then count_early(KEYS[4], ARGV[5], ARGV[6]) end
redis.call('DEL', KEYS[1], KEYS[2])
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
redis.call('HSET', KEYS[2], 'state', 'queued', 'epoch', 0, 'te', 0, 'lease_until', 0, 'seq', 1, 'bytes', 0,
  'content', 0, 'attempt', 0, 'um', ARGV[3], 'created', ARGV[10], 'deadline', ARGV[4], 'ca', ARGV[5], 'la', ARGV[6], 'delivered', 0)
redis.call('XADD', KEYS[1], '1-0', 'e', 0, 'd', ARGV[1])
redis.call('ZADD', KEYS[4], now + ARGV[7] + math.max(0, ARGV[5]), ARGV[11])
redis.call('XADD', KEYS[3], '*', 'r', ARGV[2])
for _, key in ipairs({KEYS[1], KEYS[2], KEYS[4]}) do redis.call('PEXPIRE', key, ARGV[8]) end
redis.call('SPUBLISH', ARGV[9], '0 1\n' .. ARGV[1])
return 1
