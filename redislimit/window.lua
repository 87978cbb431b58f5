-- Takes n units of a key in fixed or sliding windows, if they are admitted.
-- KEYS[1]: the key's shard. ARGV: where its block begins; where its cells are in it, eight
-- bytes; units; time in microseconds, or '' for the server's.
-- Returns whether they were admitted, the key's counts before in the current and in the
-- previous generation, and how much of the current one has passed, in ticks.
--
-- A block holds 4 rows of 32 cells for each generation kept, and the number of the
-- newest one. What has become too old is taken as 0, and is so after the next write.
local first, n, now = tonumber(ARGV[1]), tonumber(ARGV[3]), tonumber(ARGV[4])
if not now then
	local time = redis.call('TIME')
	now = time[1] * 1000000 + time[2]
end
now = math.floor(now / tick)
local generation = math.floor(now / window)
local elapsed = now - generation * window

local sub, unpack, pack = string.sub, struct.unpack, struct.pack
local half = 128 * cell
local all = kept * half
local block = redis.call('GETRANGE', KEYS[1], first, first + all + 5)
local missing = block == ''
local stamp = missing and 0 or unpack('>I6', block, all + 1)
if stamp > generation then -- a clock that others are ahead of
	generation, elapsed = stamp, 0
end
local age = generation - stamp
local here = generation % kept * half
if missing or age >= kept then
	block = string.rep('\0', all)
elseif age > 0 then
	block = sub(block, 1, here) .. string.rep('\0', half) .. sub(block, here + half + 1, all)
end

-- Each generation finds the cells elsewhere: keys that meet in one do not meet in the next.
local a1, b1, a2, b2, a3, b3, a4, b4 = string.byte(ARGV[2], 1, 8)
local function places(from, g)
	return from + 1 + (a1 + g * b1) % 32 * cell,
		from + 1 + (32 + (a2 + g * b2) % 32) * cell,
		from + 1 + (64 + (a3 + g * b3) % 32) * cell,
		from + 1 + (96 + (a4 + g * b4) % 32) * cell
end
local p1, p2, p3, p4 = places(here, generation)
local c1, c2, c3, c4 = (unpack(count, block, p1)), (unpack(count, block, p2)), (unpack(count, block, p3)), (unpack(count, block, p4))
local current, previous = math.min(c1, c2, c3, c4), 0
if kept == 2 then
	local q1, q2, q3, q4 = places(half - here, generation - 1)
	previous = math.min((unpack(count, block, q1)), (unpack(count, block, q2)), (unpack(count, block, q3)), (unpack(count, block, q4)))
end

-- All products are whole numbers up to 2^53, so nothing is rounded.
local after = current + n
if n < 1 or after > limit or previous * (window - elapsed) > (limit - after) * window then
	return {0, current, previous, elapsed}
end

local raised, last = pack(count, after), cell - 1
local cells = sub(block, here + 1, p1 - 1) .. (c1 < after and raised or sub(block, p1, p1 + last)) ..
	sub(block, p1 + cell, p2 - 1) .. (c2 < after and raised or sub(block, p2, p2 + last)) ..
	sub(block, p2 + cell, p3 - 1) .. (c3 < after and raised or sub(block, p3, p3 + last)) ..
	sub(block, p3 + cell, p4 - 1) .. (c4 < after and raised or sub(block, p4, p4 + last)) ..
	sub(block, p4 + cell, here + half)
if age == 0 and not missing then
	redis.call('SETRANGE', KEYS[1], first + here, cells)
else
	if missing then -- at full size at once: a string that grows takes up to twice its length
		redis.call('SETRANGE', KEYS[1], size - 1, '\0')
	end
	redis.call('SETRANGE', KEYS[1], first, sub(block, 1, here) .. cells .. sub(block, here + half + 1) .. pack('>I6', generation))
	redis.call('PEXPIRE', KEYS[1], ttl)
end
return {1, current, previous, elapsed}
