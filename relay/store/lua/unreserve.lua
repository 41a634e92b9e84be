-- KEYS 1 running  2 held       ARGV 1… response ids. What never ran leaves nothing behind.
redis.call('ZREM', KEYS[1], unpack(ARGV))
return redis.call('HDEL', KEYS[2], unpack(ARGV))
