-- Takes units out of a key's token bucket, if they are there.
-- KEYS[1]: the key's shard. ARGV: where its block begins; where its cells are in it, four
-- bytes; the ticks in which the units flow; the most ticks that the bucket may lack of
-- being full before (for one unit, if these are missing); time in microseconds, or '' for the
-- server's; one more: only look.
-- Returns whether they were there, and the ticks that the bucket lacked before, rounded up.
--
-- A block holds 4 rows of 32 cells and the number of a generation, which is 2^30 ticks. A
-- cell is the time at which the bucket is full again, in ticks since its block's
-- generation began.
local first, cost, room, now = tonumber(ARGV[1]), tonumber(ARGV[3] or unit), tonumber(ARGV[4] or most), tonumber(ARGV[5] or '')
local call, sub, unpack, pack = redis.call, string.sub, struct.unpack, struct.pack
local min, max, ceil = math.min, math.max, math.ceil
if not now then
	local time = call('TIME')
	now = time[1] * 1000000 + time[2]
end
now = now * scale -- a power of two: exact, as all that follows
local elapsed = now % 1073741824
local generation = (now - elapsed) / 1073741824

local block = call('GETRANGE', KEYS[1], ARGV[1], first + 517)
local missing = block == ''
if missing then
	block = string.rep('\0', 518)
end
local stamp = missing and -4 or unpack('>I6', block, 513)
if stamp > generation then -- a clock that others are ahead of
	generation, elapsed = stamp, 0
end
local age = generation - stamp
local passed = min(age, 4) * 1073741824

local p1, p2, p3, p4 = string.byte(ARGV[2], 1, 4)
p1, p2, p3, p4 = 1 + 4 * p1, 129 + 4 * p2, 257 + 4 * p3, 385 + 4 * p4
local c1, c2, c3, c4 = (unpack('>I4', block, p1)), (unpack('>I4', block, p2)), (unpack('>I4', block, p3)), (unpack('>I4', block, p4))
local ahead = max(0, min(c1, c2, c3, c4) - passed - elapsed)
if ahead > room then
	return {0, ceil(ahead)}
elseif ARGV[6] then
	return {1, ceil(ahead)}
end

if age > 3 then -- nothing in it lies ahead any more
	block, c1, c2, c3, c4 = string.rep('\0', 512), 0, 0, 0, 0
elseif age > 0 then -- bring all cells forward
	local format = '>' .. string.rep('I4', 128)
	local cells = {unpack(format, block)}
	for i = 1, 128 do
		cells[i] = max(0, cells[i] - passed)
	end
	block = pack(format, _G.unpack(cells, 1, 128))
	c1, c2, c3, c4 = c1 - passed, c2 - passed, c3 - passed, c4 - passed
end
local full = ceil(elapsed + ahead) + cost
local raised = pack('>I4', full)
local cells = (c1 < full and raised or pack('>I4', c1)) .. sub(block, p1 + 4, p2 - 1) .. (c2 < full and raised or pack('>I4', c2)) ..
	sub(block, p2 + 4, p3 - 1) .. (c3 < full and raised or pack('>I4', c3)) .. sub(block, p3 + 4, p4 - 1) .. (c4 < full and raised or pack('>I4', c4))
if age == 0 then
	call('SETRANGE', KEYS[1], first + p1 - 1, cells)
else
	if missing then -- at full size at once: a string that grows takes up to twice its length
		call('SETRANGE', KEYS[1], size - 1, '\0')
	end
	call('SETRANGE', KEYS[1], first, sub(block, 1, p1 - 1) .. cells .. sub(block, p4 + 4, 512) .. pack('>I6', generation))
	call('PEXPIRE', KEYS[1], ttl)
end
return {1, ceil(ahead)}
