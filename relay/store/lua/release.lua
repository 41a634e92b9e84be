-- Give a job without content back: its upstream is closed, so the response counts as queued again. PROTOCOL 9
-- KEYS 1 meta  2 jobs
-- ARGV 1 epoch  2 entry id  3 response id  4 group  5 lease_until the writer was last given
-- reply 1 released, 0 not ours, or it has content, a stop or an end
local m = redis.call('HMGET', KEYS[1], 'state', 'epoch', 'content', 'stop')
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
if now > tonumber(ARGV[5]) then return 0 end
if m[1] ~= 'in_progress' or tonumber(m[2]) ~= tonumber(ARGV[1]) or m[3] ~= '0' or m[4] then return 0 end
-- A new epoch: a write of the old holder that is still on its way is refused.
redis.call('HSET', KEYS[1], 'state', 'queued', 'epoch', m[2] + 1, 'lease_until', 0)
redis.call('XADD', KEYS[2], '*', 'r', ARGV[3])
redis.call('XACK', KEYS[2], ARGV[4], ARGV[2])
redis.call('XDEL', KEYS[2], ARGV[2])
return 1
