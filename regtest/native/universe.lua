-- universe.lua: a heap with something of everything; its snapshots are named, its bytes printed at each
local ljtrace = require "ljtrace"
local ffi = require "ffi"
ffi.cdef [[
struct node { int a; struct node *next; };
typedef struct { double x, y; } point;
]]

-- the script allocates nothing between the counts and the snapshot (an eager compiler may); a count is a number until it is printed
local counts, afterwards = {0, 0, 0, 0}, {0, 0, 0, 0}
local function shoot(i, name)
  counts[i] = collectgarbage("count") * 1024
  ljtrace.snapshot(name)
  afterwards[i] = collectgarbage("count") * 1024
end
jit.off(shoot)
shoot(1, "warm") -- the first use of a C function allocates

local keep = {}
Leaky = {cache = {}}
for i = 1, 300 do Leaky.cache["k" .. i] = {i, tostring(i)} end
for i = 1, 40 do
  keep[i] = ffi.new("struct node")
  keep[100 + i] = ffi.new("point")
  keep[200 + i] = ffi.new("int[?]", i)
  keep[300 + i] = ffi.gc(ffi.new("double[3]"), function() end)
end
local routines = {}
for i = 1, 20 do
  routines[i] = coroutine.create(function(x)
    local held = {x}
    coroutine.yield(function() return held end)
  end)
  keep["f" .. i] = select(2, coroutine.resume(routines[i], i))
end
keep.held_by_upvalue = (function()
  local hidden = {"the only way is an upvalue"}
  return function() return hidden end
end)()
keep.weak = setmetatable({{"only weakly held"}}, {__mode = "v"})
keep.proxy = newproxy(true)
getmetatable(keep.proxy).__name = "my.proxy"
local ok, buffer = pcall(require, "string.buffer")
if ok then
  keep.buffer = buffer.new()
  keep.buffer:put(("x"):rep(5000))
end
for i = 1, 100 do assert(loadstring("local a = ... return a + " .. i))(1) end
local s = 0
for i = 1, 2000 do
  local t = {i}
  s = s + #t
end
collectgarbage()
collectgarbage()
shoot(1, "before")
for i = 1, 500 do Leaky.cache["more" .. i] = {i} end
collectgarbage()
collectgarbage()
shoot(2, "after")

-- in the middle of the sweep, with garbage not yet swept
local garbage
for i = 1, 2000 do garbage = {i} end
garbage = nil
collectgarbage("step", 0)
for i = 1, 40 do collectgarbage("step", 0) end
shoot(3, "sweeping")
shoot(4, "last")
for i = 1, 4 do print(("%d %d"):format(counts[i], afterwards[i])) end
