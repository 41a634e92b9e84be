-- Make a response again as its writer has it, where the server has lost it or its claim. PROTOCOL 10
-- KEYS 1 log  2 meta  3 jobs  4 viewers
-- ARGV 1 epoch  2 lease_until the writer was last given  3 lease ms  4 response id  5 entry id  6 worker  7 group
--      8 channel  9 ttl ms  10 grace ms  11 upstream model as JSON string  12 created ms  13 deadline ms
--      14 cancel_after ms or -1  15 leave_after ms or -1  16 ended  17 stop or ''  18 attempt  19 has content
--      20 content bytes  21 output tokens  22 '<epoch> <count> …' of the events  23… events from seq 1
-- reply {how, seq, lease_until, stop, entry id}. Safe to repeat: what is not lost is left as it is.
local m = redis.call('HMGET', KEYS[2], 'state', 'epoch', 'seq', 'stop', 'delivered', 'claims')
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local epoch, known = tonumber(ARGV[1]), tonumber(m[2] or -1)
if now > tonumber(ARGV[2]) or known > epoch then return {'fenced'} end
local lease_until = now + ARGV[3]
if m[1] and known == epoch then
  if m[1] == 'ended' then return {'closed', tonumber(m[3]), lease_until, '', ARGV[5]} end
  redis.call('HSET', KEYS[2], 'lease_until', lease_until)
  return {'ok', tonumber(m[3]), lease_until, m[4] or '', ARGV[5]}
end
if not m[1] then count_early(KEYS[4], ARGV[14], ARGV[15]) end
redis.call('DEL', KEYS[1], KEYS[2])
local seq, te = 0, 0
for writer, count in string.gmatch(ARGV[22], '(%d+) (%d+)') do
  te = writer
  for _ = 1, tonumber(count) do
    seq = seq + 1
    redis.call('XADD', KEYS[1], seq .. '-0', 'e', writer, 'd', ARGV[22 + seq])
  end
end
local stop = m[4] or ARGV[17]
redis.call('HSET', KEYS[2], 'state', ARGV[16] == '1' and 'ended' or 'in_progress', 'epoch', ARGV[1], 'te', te,
  'lease_until', lease_until, 'seq', seq, 'bytes', ARGV[20], 'content', ARGV[19], 'attempt', ARGV[18], 'um', ARGV[11],
  'created', ARGV[12], 'deadline', ARGV[13], 'ca', ARGV[14], 'la', ARGV[15], 'out', ARGV[21],
  'delivered', m[5] or 0)
if m[6] then redis.call('HSET', KEYS[2], 'claims', m[6]) end
if stop ~= '' then redis.call('HSET', KEYS[2], 'stop', stop) end
if not m[1] or redis.call('EXISTS', KEYS[4]) == 0 then
  -- Nobody knows who was here: counts as the creator does, and is not ended by the first who comes.
  redis.call('ZADD', KEYS[4], now + ARGV[10] + math.max(0, ARGV[14]), 'restored')
end
local id = ARGV[5]
local job = redis.call('XRANGE', KEYS[3], id, id)
if not job[1] or job[1][2][2] ~= ARGV[4] then id = redis.call('XADD', KEYS[3], '*', 'r', ARGV[4]) end
redis.pcall('XGROUP', 'CREATE', KEYS[3], ARGV[7], '0') -- an error: it is there
redis.call('XCLAIM', KEYS[3], ARGV[7], ARGV[6], 0, id, 'IDLE', 0, 'JUSTID')
for _, key in ipairs({KEYS[1], KEYS[2], KEYS[4]}) do redis.call('PEXPIRE', key, ARGV[9]) end
redis.call('SPUBLISH', ARGV[8], ARGV[1] .. ' ' .. (seq + 1))
return {'ok', seq, lease_until, stop, id}
