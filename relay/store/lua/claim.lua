-- Raise the epoch and take the lease, or say why not. PROTOCOL 2, 6, 7, 10
-- KEYS 1 log  2 meta  3 jobs  4 viewers  5 run
-- ARGV 1 entry id  2 worker  3 lease ms  4 max attempts  5 at (RFC 3339)  6 channel  7 group
--      8 two heartbeats in ms
-- reply {how, epoch, lease_until, seq, attempt, has_content, stop, abandoned, expired, output tokens counted,
--        and with 'run' the log as epoch, event, epoch, event …}
local m = redis.call('HMGET', KEYS[2], 'state', 'epoch', 'lease_until', 'seq', 'content', 'attempt', 'stop', 'um',
  'deadline', 'ca', 'out', 'created', 'claims')
if not m[1] or redis.call('EXISTS', KEYS[1]) == 0 then return {'gone'} end
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local seq, attempt, stop, out = tonumber(m[4]), tonumber(m[6]), m[7] or '', tonumber(m[11] or 0)
if m[1] == 'ended' then
  return {'closed', tonumber(m[2]), now + ARGV[3], seq, attempt, tonumber(m[5]), stop, 0, 0, out}
end
local left = math.max(m[3] - now, grace_left(KEYS[5], m[12] or 0, now, ARGV[3]))
if left > 0 then
  -- Idle as if the lease were the last touch: the job comes back when the lease lapses, not one lease later.
  redis.call('XCLAIM', KEYS[3], ARGV[7], ARGV[2], 0, ARGV[1], 'IDLE', math.max(0, ARGV[3] - left), 'JUSTID')
  return {'busy'}
end
local epoch = math.max(m[2] + 1, now)
local lease_until = now + ARGV[3]
local alone = abandoned(KEYS[4], m[10], m[12], KEYS[5], now, ARGV[8])
local expired = now > tonumber(m[9]) and 1 or 0
local how, log = 'take_over', {}
-- Who claimed it, for its story: the first eight.
local claims = m[13] or ''
if select(2, string.gsub(claims, '\n', '')) < 8 then claims = claims .. string.format('%.0f %s\n', epoch, ARGV[2]) end
if m[5] == '0' and stop == '' and alone == 0 and expired == 0 and attempt < tonumber(ARGV[4]) then
  how, out = 'run', 0
  attempt = attempt + 1
  seq = seq + 1
  local event = string.format('{"type":"started","seq":%d,"upstream_model":%s,"attempt":%d,"epoch":%.0f,"at":"%s"}',
    seq, m[8], attempt, epoch, ARGV[5])
  redis.call('XADD', KEYS[1], seq .. '-0', 'e', epoch, 'd', event)
  redis.call('HSET', KEYS[2], 'state', 'in_progress', 'epoch', epoch, 'te', epoch, 'lease_until', lease_until,
    'seq', seq, 'attempt', attempt, 'out', 0, 'claims', claims)
  redis.call('SPUBLISH', ARGV[6], string.format('%.0f %d\n%s', epoch, seq, event))
  for _, entry in ipairs(redis.call('XRANGE', KEYS[1], '-', '+')) do
    log[#log + 1], log[#log + 2] = entry[2][2], entry[2][4]
  end
else
  redis.call('HSET', KEYS[2], 'state', 'in_progress', 'epoch', epoch, 'lease_until', lease_until, 'claims', claims)
end
return {how, epoch, lease_until, seq, attempt, tonumber(m[5]), stop, alone, expired, out, log}
