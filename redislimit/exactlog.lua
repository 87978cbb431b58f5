-- Takes n units of a key if those of the last window leave room for them.
-- KEYS[1]: the key's. ARGV: units; time in microseconds, or '' for the server's; 1 to take nothing.
-- Returns whether they were admitted, the units that count after, the time until they
-- would be admitted, and the time until none counts any more.
--
-- The state is a sorted set of what was admitted: scores are times, and members all units
-- up to then, so that the units between two entries are one subtraction. One entry
-- before the window is kept to subtract.
local n, now = tonumber(ARGV[1]), tonumber(ARGV[2])
if not now then
	local time = redis.call('TIME')
	now = time[1] * 1000000 + time[2]
end
local total = 0
local last = redis.call('ZRANGE', KEYS[1], -1, -1, 'WITHSCORES')
if last[1] then
	total, now = tonumber(last[1]), math.max(now, tonumber(last[2]))
end
local function entry(rank)
	local e = redis.call('ZRANGE', KEYS[1], rank, rank, 'WITHSCORES')
	return tonumber(e[1]), tonumber(e[2])
end
local gone = redis.call('ZCOUNT', KEYS[1], '-inf', now - window)
local used = total
if gone > 0 then
	used = total - entry(gone - 1)
end

if n >= 1 and used + n <= limit then
	if ARGV[3] == '1' then
		return {1, used, 0, used > 0 and tonumber(last[2]) + window - now or 0}
	end
	if gone > 1 then
		redis.call('ZREMRANGEBYRANK', KEYS[1], 0, gone - 2)
	end
	redis.call('ZADD', KEYS[1], now, string.format('%016.0f', total + n))
	redis.call('PEXPIRE', KEYS[1], ttl)
	return {1, used + n, 0, window}
end
local wait = 0
if n >= 1 and n <= limit then -- until the first entry has gone after which no more than limit - n came
	local low, high = gone, redis.call('ZCARD', KEYS[1]) - 1
	while low < high do
		local middle = math.floor((low + high) / 2)
		if total - entry(middle) <= limit - n then
			high = middle
		else
			low = middle + 1
		end
	end
	local _, time = entry(low)
	wait = time + window - now
end
return {0, used, wait, used > 0 and tonumber(last[2]) + window - now or 0}
