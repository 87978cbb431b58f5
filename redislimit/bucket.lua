-- Takes units out of a key's token bucket, if they are there.
-- KEYS[1]: the key's shard. ARGV: where its block begins; where its cells are in it, four
-- bytes; the ticks in which the units flow; the most ticks that the bucket may lack of
-- being full before (for one unit, if these are missing); time in microseconds, or '' for the
-- server's; one more: only look.
-- Returns whether they were there, and the ticks that the bucket lacked before.
--
-- A block holds 4 rows of 32 cells and the number of a generation, with a mark once it has begun anew.
-- A cell is the time at which the bucket is full again, in ticks since its block's
-- generation began. All numbers are whole, below 2^53.
local first, cost, room, at = tonumber(ARGV[1]), tonumber(ARGV[3] or unit), tonumber(ARGV[4] or most), tonumber(ARGV[5] or '')
local call, sub, unpack, pack, min, max = redis.call, string.sub, struct.unpack, struct.pack, math.min, math.max
local now = at
if not now then
	local time = call('TIME')
	now = time[1] * 1000000 + time[2]
end
local elapsed = now % length
local generation = (now - elapsed) / length
elapsed = elapsed * scale

local all = 128 * cell
local block = call('GETRANGE', KEYS[1], ARGV[1], first + all + 5)
local missing = block == ''
local stamp, marked = missing and -forgotten or unpack('>I6', block, all + 1), false
if stamp >= mark then
	stamp, marked = stamp - mark, true
end
if stamp > generation or marked and generation > stamp + far then
	local anew, behind = judge(stamp, marked, generation, at)
	if anew then
		stamp, marked = -forgotten, true
	elseif behind then
		generation, elapsed = stamp, 0
	end
end
local age = generation - stamp
local passed = min(age, forgotten) * length * scale
if age >= forgotten then -- nothing in it lies ahead any more
	block = string.rep('\0', all)
end

local p1, p2, p3, p4 = string.byte(ARGV[2], 1, 4)
p1, p2, p3, p4 = 1 + cell * p1, 1 + cell * (32 + p2), 1 + cell * (64 + p3), 1 + cell * (96 + p4)
local c1, c2, c3, c4 = (unpack(number, block, p1)), (unpack(number, block, p2)), (unpack(number, block, p3)), (unpack(number, block, p4))
local ahead = max(0, min(c1, c2, c3, c4) - passed - elapsed)
if ahead > room then
	return {0, ahead}
elseif ARGV[6] then
	return {1, ahead}
end

if age > 0 and age < forgotten then -- bring all cells forward
	local format = '>' .. string.rep(sub(number, 2), 128)
	local cells = {unpack(format, block)}
	for i = 1, 128 do
		cells[i] = max(0, cells[i] - passed)
	end
	block = pack(format, _G.unpack(cells, 1, 128))
	c1, c2, c3, c4 = c1 - passed, c2 - passed, c3 - passed, c4 - passed
end
local full = elapsed + ahead + cost
local raised = pack(number, full)
local cells = (c1 < full and raised or pack(number, c1)) .. sub(block, p1 + cell, p2 - 1) .. (c2 < full and raised or pack(number, c2)) ..
	sub(block, p2 + cell, p3 - 1) .. (c3 < full and raised or pack(number, c3)) .. sub(block, p3 + cell, p4 - 1) .. (c4 < full and raised or pack(number, c4))
if age == 0 then
	call('SETRANGE', KEYS[1], first + p1 - 1, cells)
else
	if missing then -- at full size at once: a string that grows takes up to twice its length
		call('SETRANGE', KEYS[1], size - 1, '\0')
	end
	call('SETRANGE', KEYS[1], first, sub(block, 1, p1 - 1) .. cells .. sub(block, p4 + cell, all) .. pack('>I6', marked and generation + mark or generation))
	call('PEXPIRE', KEYS[1], ttl)
end
return {1, ahead}
