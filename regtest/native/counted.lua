-- counted.lua - run a script between counthook's two sentinels and write the counts to a file.
-- usage: luajit counted.lua yes|no REPORT SCRIPT [ARGUMENT...]     (yes: count natively)
-- It does not stop at the script's os.exit: scripts used here return.
-- SPDX-License-Identifier: GPL-2.0-or-later
local hook = require "counthook"
local counting, report, script = arg[1] == "yes", arg[2], arg[3]
local chunk = assert(loadfile(script))
arg = { [0] = script, unpack(arg, 4) }
collectgarbage()
local first = hook.start(counting)
chunk()
local last = hook.stop()
hook.report(report)
return first, last
