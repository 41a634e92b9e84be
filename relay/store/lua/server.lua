-- Which run of the server this is; stands before the scripts that ask. PROTOCOL 10, 11
local function run_id() return string.match(redis.call('INFO', 'server'), 'run_id:(%w+)') end
