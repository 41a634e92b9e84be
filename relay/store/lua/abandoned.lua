-- Does every presence lie in the past, under a policy that minds? PROTOCOL 7
-- KEYS 1 viewers  2 meta     reply 1 or 0
local ca = redis.call('HGET', KEYS[2], 'ca')
if not ca or tonumber(ca) < 0 then return 0 end
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local last = redis.call('ZREVRANGE', KEYS[1], 0, 0, 'WITHSCORES')
return (not last[2] or tonumber(last[2]) < now) and 1 or 0
