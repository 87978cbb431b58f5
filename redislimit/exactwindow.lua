-- Takes n units of a key in fixed windows, if they are admitted.
-- KEYS[1]: the key's. ARGV: units; time in microseconds, or '' for the server's; 1 to take nothing.
-- Returns whether they were admitted, the units before, and how much of the window has
-- passed, in ticks.
local n, now = tonumber(ARGV[1]), tonumber(ARGV[2])
if not now then
	local time = redis.call('TIME')
	now = time[1] * 1000000 + time[2]
end
now = math.floor(now / tick)
local generation = math.floor(now / window)
local elapsed = now - generation * window

local stamp, used = generation, 0
local state = redis.call('GET', KEYS[1])
if state then
	stamp, used = struct.unpack('>I6I4', state)
end
if stamp > generation then
	generation, elapsed = stamp, 0
elseif stamp < generation then
	used = 0
end
if n < 1 or used + n > limit then
	return {0, used, elapsed}
end
if ARGV[3] == '1' then
	return {1, used, elapsed}
end
redis.call('SET', KEYS[1], struct.pack('>I6I4', generation, used + n), 'PX', ttl)
return {1, used, elapsed}
