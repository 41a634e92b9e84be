-- What a writer is told whose epoch is not the log's; stands before the scripts that write. PROTOCOL 2, 10
local function unknown(known, epoch, lease_until)
  local t = redis.call('TIME')
  if t[1] * 1000 + math.floor(t[2] / 1000) > tonumber(lease_until) then return {'fenced'} end
  if known and tonumber(known) > tonumber(epoch) then return {'fenced'} end
  return {'lost', 0, 0, ''}
end
