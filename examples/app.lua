-- app.lua - a small make-believe service with a heap worth looking at.
--
-- It serves 700 requests, each of which makes words, tables, closures, coroutines and a reply: about half
-- a second, 16 million loads and stores. Everything is computed from a fixed seed, so each run prints the
-- same line and makes the same allocations; `luajit app.lua 0.1` serves a tenth, and a second number scales
-- the arithmetic.
-- SPDX-License-Identifier: GPL-2.0-or-later
--
-- What a report of this program should show:
--   * cache    a leak: it only grows, so memory over time has a slope under the saw-tooth of the
--              garbage collector, and its entries live until the state is closed;
--   * audit    blocks of the C heap that are filled and never read: pure waste. The last one is never freed;
--   * journal  tables that are written once and that only the garbage collector looks at again;
--   * words, tree, closures
--              temporaries: thousands of blocks that die young, the left edge of the lifetime histogram;
--   * squares  one array that grows by doubling: a chain of resizes;
--   * particles
--              one cdata block, small but the hottest of all: loaded, stored and modified in each request;
--   * session  coroutines, each with a Lua stack of its own;
--   * digest   works in registers and touches no heap, so that time and accesses are not the same thing.
--
-- It keeps away from what makes runs differ: files, the clock, addresses, and two habits of LuaJIT. The
-- collector, left alone, sweeps strings in the order of a random hash seed; here it stands still and is
-- called every 50 requests, as a game calls it between frames. The compiler retries what it cannot
-- translate (making closures, resuming coroutines) after random intervals; such functions are kept from
-- it by jit.off.

local ffi = require "ffi"
local bit = require "bit"
local has_buffer, buffer = pcall(require, "string.buffer")

local requests = math.floor(700 * (tonumber(arg and arg[1]) or 1))
local rounds = math.floor(1100000 * (tonumber(arg and arg[2]) or 1))
local bxor, rol, tobit = bit.bxor, bit.rol, bit.tobit

ffi.cdef [[
  struct particle { double x, y, vx, vy; int32_t hits; };
  void *malloc(size_t bytes);
  void free(void *block);
]]

-- numbers 0 .. n-1, the same in each run; kept in a table, since LuaJIT reckons with stores to upvalues by a
-- hash of their address, and so compiles otherwise from run to run
local state = { seed = 20120823 }
local function random(n)
  state.seed = (state.seed * 16807) % 2147483647
  return state.seed % n
end

local syllables = { "ka", "lo", "mi", "ne", "ru", "sha", "ti", "vo" }

-- a word of three or four syllables: string temporaries, many of them equal and so interned once
local function word()
  local w = syllables[1 + random(8)] .. syllables[1 + random(8)] .. syllables[1 + random(8)]
  return random(2) == 0 and w or w .. syllables[1 + random(8)]
end

-- how often each word came: one hash table that lives long and is read and written all the time
local frequency = {}
local function count_words(n)
  local words = {}
  for i = 1, n do
    local w = word()
    words[i] = w
    frequency[w] = (frequency[w] or 0) + 1
  end
  return words
end

-- a binary tree of small tables, built, summed up and dropped
local function tree(depth)
  if depth == 0 then return { value = random(10) } end
  return { left = tree(depth - 1), right = tree(depth - 1), value = depth }
end

local function tree_sum(t)
  if not t.left then return t.value end
  return t.value + tree_sum(t.left) + tree_sum(t.right)
end
jit.off(tree)
jit.off(tree_sum)

-- an array that grows one by one
local squares = {}
local function grow(n)
  local size = #squares
  for i = size + 1, size + n do squares[i] = i * i end
  return squares[size + 1]
end

-- a chain of closures, each holding the one before as an upvalue
local function compose(n)
  local f = function(x) return x end
  for i = 1, n do
    local inner, step = f, i
    f = function(x) return inner(x) + step end
  end
  return f
end
jit.off(compose, true)

-- cdata: allocated once, touched in each request
local particles = ffi.new("struct particle[?]", 64)
local function move()
  local hits = 0
  for i = 0, 63 do
    local p = particles[i]
    p.x = p.x + p.vx
    p.y = p.y + p.vy
    if p.x * p.x + p.y * p.y > 100 then
      p.vx, p.vy = -p.vx, -p.vy
      p.hits = p.hits + 1
    end
    hits = hits + p.hits
  end
  return hits
end

-- a producer in a coroutine: a session that yields its steps
local function session(steps)
  local co = coroutine.wrap(function()
    for i = 1, steps do coroutine.yield(i) end
    return 0
  end)
  local sum = 0
  for _ = 1, steps + 1 do sum = sum + co() end
  return sum
end
jit.off(session, true)

-- the reply: through string.buffer where LuaJIT has it, through table.concat where not
local scratch = has_buffer and buffer.new()
local function reply(words)
  if not scratch then return table.concat(words, " ") .. "\n" end
  scratch:reset()
  for i = 1, #words do
    if i > 1 then scratch:put(" ") end
    scratch:put(words[i])
  end
  return scratch:put("\n"):tostring()
end
jit.off(reply)

-- arithmetic in registers
local function digest(text)
  local h = #text
  for i = 1, rounds do h = bxor(rol(h, 5), i) end
  return tobit(h)
end

-- the leak: each request leaves an entry that nothing ever takes out
local cache = {}
local function remember(id, text)
  cache[id] = { text = text, tags = { id % 7, id % 11, id % 13 } }
end

-- waste: a page of zeros for an audit that nobody makes; the page before it is given back
local page, page_bytes = nil, 16384
local function audit()
  if page then ffi.C.free(page) end
  page = ffi.C.malloc(page_bytes)
  ffi.fill(page, page_bytes)
end

-- waste: a record kept and never looked at again
local journal = {}
local function note(id, hash)
  journal[id] = { id, hash, id * 0.5, hash * 0.5 }
end

-- collect everything now, and nothing until the next call
local function collect()
  collectgarbage()
  collectgarbage("stop")
end

local function serve(id)
  local words = count_words(12)
  local sum = compose(10)(id) + grow(20)
  if id % 8 == 0 then sum = sum + tree_sum(tree(7)) end
  if id % 4 == 0 then sum = sum + session(5) end
  local text = reply(words)
  local hash = bxor(digest(text), tobit(sum + move()))
  if id % 2 == 0 then remember(id / 2, text) end
  if id % 50 == 1 then audit() end
  note(id, hash)
  return hash
end
jit.off(serve)

local function main()
  collect()
  for i = 0, 63 do
    local p = particles[i]
    p.x, p.y, p.vx, p.vy = 0, 0, random(100) / 100, random(100) / 100
  end
  local check = 0
  for id = 1, requests do
    check = bxor(rol(check, 1), serve(id))
    if id % 50 == 0 then collect() end
  end
  local distinct = 0
  for _ in pairs(frequency) do distinct = distinct + 1 end
  print(("requests %d words %d cached %d squares %d check %08x"):format(
    requests, distinct, #cache, #squares, bit.band(check, 0x7fffffff)))
end
jit.off(main)

main()
