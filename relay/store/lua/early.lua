-- Who came before there was a log was noted with timers of 0; now that they are known they are added. PROTOCOL 7.5
local function count_early(viewers, ca, la)
  local long = math.max(0, ca)
  local short = tonumber(la) >= 0 and la or long
  for _, member in ipairs(redis.call('ZRANGE', viewers, 0, -1)) do
    redis.call('ZINCRBY', viewers, string.sub(member, 1, 5) == 'left:' and short or long, member)
  end
end
