-- How a response is doing, for people who look. PROTOCOL 7
-- KEYS 1 meta  2 viewers
-- reply {output tokens counted, viewers present, claims}, or nothing without a log
local m = redis.call('HMGET', KEYS[1], 'out', 'claims', 'state')
if not m[3] then return {} end
local t = redis.call('TIME')
local count = 0
for _, member in ipairs(redis.call('ZRANGEBYSCORE', KEYS[2], t[1] * 1000 + math.floor(t[2] / 1000), '+inf')) do
  if member ~= 'creator' and member ~= 'restored' and string.sub(member, 1, 5) ~= 'left:' then count = count + 1 end
end
return {m[1] or '0', count, m[2] or ''}
