-- Which server this is, and since when it is known; stands before every script that asks. PROTOCOL 10
-- For how many ms more a writer of this response may have to restore it: 0 but for a lease after a new server was seen.
local function grace_left(key, created, now, lease_ms)
  local info = redis.call('INFO', 'server')
  local id = string.match(info, 'run_id:(%w+)')
  local run = redis.call('HMGET', key, 'id', 'since', 'noticed')
  if run[1] ~= id then
    -- One that names no other server came up empty: what was asked since its start has no other history.
    local started = now - now % 1000 - 1000 * string.match(info, 'uptime_in_seconds:(%d+)') - 1000
    run = {id, run[1] and now or started, now}
    redis.call('HSET', key, 'id', id, 'since', run[2], 'noticed', now)
  end
  if tonumber(created) > tonumber(run[2]) then return 0 end
  return math.max(0, run[3] + lease_ms - now)
end
