-- One node tells what it has admitted, and asks what the others have, of some cells in one
-- generation. All is done or nothing, and twice is once.
--
-- KEYS: cells (the sum of all nodes, saturating), log (a head and the nodes' records one after
--       another, the oldest cut off), node (the number of the node's last record)
-- ARGV: 1 number of the node's record before these, 2 of the last of these, 3 the records,
--       4 position in the log up to which the node knows all; -1: it asks for the sum; -2: for nothing
--       5 layout, 32 characters, 6 bits a cell, 7 time to live in ms, 8 longest log in bytes
-- Returns the number of the node's last record here; and if that is ARGV[2], also the position of the
--       log's end, 1 if what follows is the sum and not records, and these.
local cells, log, node = KEYS[1], KEYS[2], KEYS[3]
local records = ARGV[3]
local headSize = 48 -- position of the oldest record, 16 digits, and the layout

local head = redis.call('GETRANGE', log, 0, headSize - 1)
if head == '' then
  head = string.format('%016d', 0) .. ARGV[5]
  redis.call('SET', log, head, 'PX', ARGV[7])
elseif string.sub(head, 17) ~= ARGV[5] then
  return redis.error_reply('LAYOUT differs')
end

local known = redis.call('GET', node) or '0'
local again = known == ARGV[2]
if not again and known ~= ARGV[1] then
  return {known} -- Redis has lost records, or the node asks for the first time since
end

local function add()
  local byte, floor = string.byte, math.floor
  local i, at, args, n = 1, -1, {}, 0
  local kind = 'u' .. ARGV[6]
  local function number()
    local b = byte(records, i)
    local v, unit = b % 128, 128
    i = i + 1
    while b >= 128 do
      b = byte(records, i)
      v, unit = v + b % 128 * unit, unit * 128
      i = i + 1
    end
    return v
  end
  while i <= #records do
    local v = number()
    if v == 0 then
      at = -1
    else
      at = at + floor(v / 2)
      args[n + 1], args[n + 2], args[n + 3] = 'INCRBY', kind, '#' .. at
      args[n + 4] = v % 2 == 0 and 1 or number() + 2
      n = n + 4
      if n == 4000 then
        redis.call('BITFIELD', cells, 'OVERFLOW', 'SAT', unpack(args, 1, n))
        n = 0
      end
    end
  end
  if n > 0 then redis.call('BITFIELD', cells, 'OVERFLOW', 'SAT', unpack(args, 1, n)) end
end
if not again then add() end

local first, size = tonumber(string.sub(head, 1, 16)), redis.call('STRLEN', log) - headSize
local position, sum, news = tonumber(ARGV[4]), 0, ''
if position ~= -2 then
  if again or position < first then -- its own records may be in the log, or others' gone
    sum, news = 1, redis.call('GET', cells) or ''
  elseif position < first + size then
    news = redis.call('GETRANGE', log, headSize + position - first, -1)
  end
end

if not again and records ~= '' then
  size = redis.call('APPEND', log, '\0' .. records) - headSize
  if size > tonumber(ARGV[8]) then
    local cut = math.floor(size / 2)
    redis.call('SET', log, string.format('%016d', first + cut) .. ARGV[5] .. redis.call('GETRANGE', log, headSize + cut, -1))
    first, size = first + cut, size - cut
  end
end
redis.call('SET', node, ARGV[2], 'PX', ARGV[7])
redis.call('PEXPIRE', cells, ARGV[7])
redis.call('PEXPIRE', log, ARGV[7])
return {ARGV[2], string.format('%d', first + size), sum, news}
