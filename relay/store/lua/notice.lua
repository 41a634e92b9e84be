-- Note which server this is before anything is claimed of it. PROTOCOL 10
-- KEYS 1 run
local t = redis.call('TIME')
grace_left(KEYS[1], 0, t[1] * 1000 + math.floor(t[2] / 1000), 0)
return 1
