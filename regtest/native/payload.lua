-- payload.lua LIBRARY ROUNDS: the same work in C and in Lua by turns, each from a line of its own
local ffi = require "ffi"
local c = ffi.load(arg[1])
ffi.cdef "double c_payload(double n);"

local function lua_payload(n)
  if n <= 1 then
    return n
  end
  return lua_payload(n - 1) + lua_payload(n - 2)
end

local sum = 0
for i = 1, tonumber(arg[2]) do
  if i % 2 == 0 then
    sum = sum + c.c_payload(14)
  else
    sum = sum + lua_payload(14)
  end
end
print(sum)
