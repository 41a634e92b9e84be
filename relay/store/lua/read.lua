-- A stretch of the log and its tail as of one moment. PROTOCOL 4, 5
-- KEYS 1 log  2 meta
-- ARGV 1 after  2 epoch of the cursor or ''  3 max bytes
-- reply nil, or {valid, tail epoch, tail seq, ended, {epoch, count, epoch, count …}, events joined by newline}
local m = redis.call('HMGET', KEYS[2], 'state', 'te', 'seq')
if not m[1] or redis.call('EXISTS', KEYS[1]) == 0 then return false end
local after, tail = tonumber(ARGV[1]), tonumber(m[3])
local ended = m[1] == 'ended' and 1 or 0
local valid = after <= tail
if valid and after > 0 and ARGV[2] ~= '' then
  local at = redis.call('XRANGE', KEYS[1], after .. '-0', after .. '-0')
  valid = at[1] ~= nil and tonumber(at[1][2][2]) == tonumber(ARGV[2])
end
if not valid then return {0, tonumber(m[2]), tail, ended, {}, ''} end
local events, epochs, bytes, limit = {}, {}, 0, tonumber(ARGV[3])
local seq = after
while seq < tail and bytes < limit do
  local entries = redis.call('XRANGE', KEYS[1], (seq + 1) .. '-0', '+', 'COUNT', 64)
  if #entries == 0 then break end
  for _, entry in ipairs(entries) do
    local size = #entry[2][4]
    if bytes > 0 and bytes + size > limit then bytes = limit break end
    bytes = bytes + size
    seq = seq + 1
    events[#events + 1] = entry[2][4]
    if epochs[#epochs - 1] == entry[2][2] then
      epochs[#epochs] = epochs[#epochs] + 1
    else
      epochs[#epochs + 1] = entry[2][2]
      epochs[#epochs + 1] = 1
    end
  end
end
return {1, tonumber(m[2]), tail, ended, epochs, table.concat(events, '\n')}
