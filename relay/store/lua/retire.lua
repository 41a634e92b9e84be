-- The record is final: delete what the log says and tell viewers to ask the record. PROTOCOL 8
-- KEYS 1 log  2 meta  3 viewers     ARGV 1 channel  2 ms for which a writer may still believe in its lease
local epoch = redis.call('HGET', KEYS[2], 'epoch') or 0
redis.call('DEL', KEYS[1], KEYS[2], KEYS[3])
local t = redis.call('TIME')
-- A later epoch and nothing else: a log that is gone to everybody, and that no writer may restore.
redis.call('HSET', KEYS[2], 'epoch', math.max(epoch + 1, t[1] * 1000 + math.floor(t[2] / 1000)))
redis.call('PEXPIRE', KEYS[2], ARGV[2])
redis.call('SPUBLISH', ARGV[1], 'gone')
return 1
