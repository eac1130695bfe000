-- run.lua - run test scripts one after the other in one process: luajit run.lua SCRIPT...
-- Each gets the arguments and globals of a fresh script; what it says of errors is part of the output.
-- SPDX-License-Identifier: GPL-2.0-or-later
local failed = 0
for _, path in ipairs(arg) do
    local name = path:match("([^/]+)%.lua$")
    print("== " .. name)
    local chunk, problem = loadfile(path)
    local ok = chunk ~= nil
    if ok then
        ok, problem = pcall(setfenv(chunk, setmetatable({}, { __index = _G })))
    end
    if not ok then
        failed = failed + 1
        print("FAILED " .. name .. ": " .. tostring(problem))
    end
end
print("== " .. #arg .. " scripts, " .. failed .. " failed")
os.exit(failed == 0 and 0 or 1, true)
