-- The record is final: delete what the log says and tell viewers to ask the record. PROTOCOL 8
-- KEYS 1 log  2 meta  3 viewers     ARGV 1 channel
redis.call('DEL', KEYS[1], KEYS[2], KEYS[3])
redis.call('PUBLISH', ARGV[1], 'gone')
return 1
