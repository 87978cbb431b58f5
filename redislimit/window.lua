-- Takes n units of a key in fixed or sliding windows, if they are admitted.
-- KEYS[1]: the key's shard. ARGV: where its block begins; where its cells are in it, eight
-- bytes; units, 1 if missing; time in microseconds, or '' for the server's; the limit, if it is
-- a lower one; one more: only look.
-- Returns whether they were admitted, the key's counts before in the current and in the
-- previous generation, and how much of the current one has passed, in ticks.
--
-- A block holds 4 rows of cells for each generation kept, and the number of the
-- newest one, with a mark once it has begun anew. What has become too old is taken as 0, and is so after the next write.
local first, n, at = tonumber(ARGV[1]), tonumber(ARGV[3] or 1), tonumber(ARGV[4] or '')
local now = at
local call, sub, min = redis.call, string.sub, math.min
if ARGV[5] then
	limit = tonumber(ARGV[5])
end
if not now then
	local time = call('TIME')
	now = time[1] * 1000000 + time[2]
end
now = (now - now % tick) / tick
local elapsed = now % window
local generation = (now - elapsed) / window

local half = 4 * columns * cell
local all = kept * half
local block = call('GETRANGE', KEYS[1], ARGV[1], first + all + 5)
local missing = block == ''
local stamp, marked = missing and -kept or struct.unpack('>I6', block, all + 1), false
if stamp >= mark then
	stamp, marked = stamp - mark, true
end
if stamp > generation or marked and generation > stamp + far then
	local anew, behind = judge(stamp, marked, generation, at)
	if anew then
		stamp, marked = -kept, true
	elseif behind then
		generation, elapsed = stamp, 0
	end
end
local age, here = generation - stamp, generation % kept * half
if age >= kept then
	block = string.rep('\0', all)
elseif age > 0 then
	block = sub(block, 1, here) .. string.rep('\0', half) .. sub(block, here + half + 1, all)
end

-- Each generation finds the cells elsewhere: keys that meet in one do not meet in the next.
local a1, b1, a2, b2, a3, b3, a4, b4 = string.byte(ARGV[2], 1, 8)
local row, g = here + 1, generation
local p1 = row + (a1 + g * b1) % columns * cell
local p2 = row + (columns + (a2 + g * b2) % columns) * cell
local p3 = row + (2 * columns + (a3 + g * b3) % columns) * cell
local p4 = row + (3 * columns + (a4 + g * b4) % columns) * cell
local c1, c2, c3, c4 = read(block, p1), read(block, p2), read(block, p3), read(block, p4)
local current, previous = min(c1, c2, c3, c4), 0
if kept == 2 then
	row, g = half - here + 1, generation - 1
	previous = min(read(block, row + (a1 + g * b1) % columns * cell),
		read(block, row + (columns + (a2 + g * b2) % columns) * cell),
		read(block, row + (2 * columns + (a3 + g * b3) % columns) * cell),
		read(block, row + (3 * columns + (a4 + g * b4) % columns) * cell))
end

-- All products are whole numbers up to 2^53, so nothing is rounded.
local after = current + n
if n < 1 or after > limit or previous * (window - elapsed) > (limit - after) * window then
	return {0, current, previous, elapsed}
elseif ARGV[6] then
	return {1, current, previous, elapsed}
end

-- No cell is raised further than to the count after.
local raised = write(after)
local cells = (c1 < after and raised or write(c1)) .. sub(block, p1 + cell, p2 - 1) .. (c2 < after and raised or write(c2)) .. sub(block, p2 + cell, p3 - 1) ..
	(c3 < after and raised or write(c3)) .. sub(block, p3 + cell, p4 - 1) .. (c4 < after and raised or write(c4))
if age == 0 then
	call('SETRANGE', KEYS[1], first + p1 - 1, cells)
else
	if missing then -- at full size at once: a string that grows takes up to twice its length
		call('SETRANGE', KEYS[1], size - 1, '\0')
	end
	call('SETRANGE', KEYS[1], first, sub(block, 1, p1 - 1) .. cells .. sub(block, p4 + cell) .. struct.pack('>I6', marked and generation + mark or generation))
	call('PEXPIRE', KEYS[1], ttl)
end
return {1, current, previous, elapsed}
