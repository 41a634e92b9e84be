-- A viewer, or every viewer of one login, went on purpose. PROTOCOL 7
-- KEYS 1 viewers  2 meta     ARGV 1 viewer, or a prefix that ends in '/'  2 grace ms
-- reply how many left
local m = redis.call('HMGET', KEYS[2], 'la', 'ca')
local la = 0
-- A policy that names no short timer treats a leave like a loss.
if m[1] then la = math.max(0, tonumber(m[1]) >= 0 and m[1] or m[2]) end
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local prefix = string.sub(ARGV[1], -1) == '/'
local left = 0
for _, member in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do
  if member == ARGV[1] or (prefix and string.sub(member, 1, #ARGV[1]) == ARGV[1]) then
    redis.call('ZADD', KEYS[1], now + la, 'left:' .. member)
    redis.call('ZREM', KEYS[1], member)
    left = left + 1
  end
end
if left > 0 and not m[1] then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
return left
