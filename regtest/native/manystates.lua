-- manystates.lua - many Lua states whose string tables grow twice each, made by the FFI with LuaJIT's own
-- functions. Where strings lie differs from state to state, and so what a grown table begins with.
-- Argument: states.
-- SPDX-License-Identifier: GPL-2.0-or-later
local ffi = require "ffi"
ffi.cdef[[
typedef struct lua_State lua_State;
lua_State *luaL_newstate(void);
void lua_close(lua_State *);
int lua_checkstack(lua_State *, int);
void lua_pushstring(lua_State *, const char *);
]]
local C = ffi.C
for i = 1, tonumber(arg[1]) do
  local L = C.luaL_newstate()
  C.lua_checkstack(L, 800)
  for j = 1, 700 do C.lua_pushstring(L, "text " .. j .. " of " .. i) end
  C.lua_close(L)
end
