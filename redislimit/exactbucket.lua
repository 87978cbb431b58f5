-- Takes units out of a key's token bucket, if they are there.
-- KEYS[1]: the key's. ARGV: the ticks in which the units flow; the most ticks that the
-- bucket may lack of being full before; time in microseconds, or '' for the server's; 1 to take nothing.
-- Returns whether they were there, and the ticks that the bucket lacked before.
--
-- The state is the time at which the bucket is full again: the number of a generation,
-- and ticks since its begin. All numbers are whole, below 2^53.
local cost, room, now = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
if not now then
	local time = redis.call('TIME')
	now = time[1] * 1000000 + time[2]
end
local elapsed = now % length
local generation = (now - elapsed) / length
elapsed = elapsed * scale

local stamp, full = generation, 0
local state = redis.call('GET', KEYS[1])
if state then
	stamp, full = struct.unpack('>I6I7', state)
end
if stamp > generation then
	generation, elapsed = stamp, 0
end
local ahead = math.max(0, full - math.min(generation - stamp, forgotten) * length * scale - elapsed)
if ahead > room then
	return {0, ahead}
end
if ARGV[4] == '1' then
	return {1, ahead}
end
redis.call('SET', KEYS[1], struct.pack('>I6I7', generation, elapsed + ahead + cost), 'PX', ttl)
return {1, ahead}
