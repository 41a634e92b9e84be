-- KEYS 1 running  2 held  3 used       ARGV 1 response id  2 its tokens  3 when `used` ends (ms)
-- reply 1 counted now, 0 it was before. The response's own field is what makes it once.
redis.call('ZREM', KEYS[1], ARGV[1])
redis.call('HDEL', KEYS[2], ARGV[1])
if redis.call('HSETNX', KEYS[3], ARGV[1], ARGV[2]) == 0 then return 0 end
redis.call('HINCRBY', KEYS[3], 'total', ARGV[2])
redis.call('PEXPIREAT', KEYS[3], ARGV[3])
return 1
