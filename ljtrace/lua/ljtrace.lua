-- ljtrace.lua - requests from a Lua script to the recorder: local ljtrace = require "ljtrace"
--
--     ljtrace.running()        true under `valgrind --tool=ljtrace`, else false
--     ljtrace.start()          record accesses from here on (see --start-off)
--     ljtrace.stop()           record only heap events from here on
--     ljtrace.mark(name)       write a named mark into the trace, for --from and --to of steve's analyses
--     ljtrace.snapshot(name)   write a snapshot of all Lua objects, for `steve universe`, and a mark of this name after
--                              it; all events before the mark are then in the file
--
-- Without the recorder, and without FFI (another Lua, another processor), all of these do nothing. The module is
-- pure Lua: functions that the recorder loads into the program make the requests (preload/lua_requests.c).
--
-- SPDX-License-Identifier: GPL-2.0-or-later
local M = {}

local function nothing() end

local function ffi_library()
    local ok, ffi = pcall(require, "ffi")
    if not ok then
        return nil
    end
    ffi.cdef [[
        int ljtrace_script_running(void);
        void ljtrace_script_switch(int on);
        void ljtrace_script_mark(const char *name);
        void ljtrace_script_snapshot(const char *name);
    ]]
    local found, there = pcall(function() return ffi.C.ljtrace_script_running() ~= 0 end)
    return found and there and ffi.C or nil
end

local function name_of(name)
    if type(name) ~= "string" and type(name) ~= "number" then
        error("a name is expected, not " .. type(name), 3)
    end
    return tostring(name)
end

local recorder = ffi_library()

function M.running()
    return recorder ~= nil
end

if recorder then
    function M.start() recorder.ljtrace_script_switch(1) end
    function M.stop() recorder.ljtrace_script_switch(0) end
    function M.mark(name) recorder.ljtrace_script_mark(name_of(name)) end
    function M.snapshot(name) recorder.ljtrace_script_snapshot(name_of(name or "snapshot")) end
    -- on a trace, objects may only be in registers, so the code that requests a snapshot must be interpreted
    if jit then jit.off(M.snapshot) end
else
    M.start, M.stop = nothing, nothing
    function M.mark(name) name_of(name) end
    function M.snapshot(name) name_of(name or "snapshot") end
end

return M
