-- Drop a job whose log is closed or gone, and start the retention of all its keys together. PROTOCOL 8
-- KEYS 1 log  2 meta  3 jobs  4 viewers
-- ARGV 1 entry id  2 retention ms  3 group
-- reply 1 acked, 0 the log is open
local state = redis.call('HGET', KEYS[2], 'state')
if state and state ~= 'ended' and redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
redis.call('XACK', KEYS[3], ARGV[3], ARGV[1])
redis.call('XDEL', KEYS[3], ARGV[1])
if state then redis.call('HSET', KEYS[2], 'acked', 1) end
for _, key in ipairs({KEYS[1], KEYS[2], KEYS[4]}) do redis.call('PEXPIRE', key, ARGV[2]) end
return 1
