-- Which time counts where a block and a request are far apart. Included by window.lua and
-- bucket.lua, which know: far, the generations that clocks may be apart (one, and a minute), and
-- length, of a generation in µs.
--
-- A block whose stamp lies far ahead of a request was written by a wrong clock, or the request's
-- clock is wrong. The first time the block begins anew and is marked, whoever is wrong. From then on the
-- server's clock decides what to believe, so that clocks that stay apart do not empty the block again and again.
local mark = 140737488355328 -- 2^47, in a block's stamp
-- Returns whether the block begins anew; if not, whether the request is taken as of the beginning
-- of the block's generation.
local function judge(stamp, marked, generation, at)
	local latest = generation
	if marked and at then
		local time = redis.call('TIME')
		latest = math.floor((time[1] * 1000000 + time[2]) / length)
	end
	if stamp <= generation then
		return false, generation > latest + far
	end
	local anew = stamp > generation + far and (not marked or stamp > latest + far)
	return anew, not anew
end
