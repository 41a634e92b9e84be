-- Does every presence lie in the past, under a policy that minds? Stands behind `run`. PROTOCOL 7.4, 10.7
-- Nobody is missed for two heartbeats after a new server was seen: who is here makes itself known first. Which
-- server it is costs more than all the rest, so it is asked last.
local function abandoned(viewers, ca, created, run, now, heartbeats_ms)
  if not ca or tonumber(ca) < 0 then return 0 end
  local last = redis.call('ZREVRANGE', viewers, 0, 0, 'WITHSCORES')
  if last[2] and tonumber(last[2]) >= now then return 0 end
  return grace_left(run, created or 0, now, heartbeats_ms) > 0 and 0 or 1
end
