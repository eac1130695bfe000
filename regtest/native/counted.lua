-- counted.lua - run a script between counthook's two sentinels and write the counts to a file.
-- usage: luajit counted.lua yes|off|log REPORT SCRIPT [ARGUMENT...]
-- yes: count the allocator's calls; log: and write each down in the file REPORT.calls; off: neither
-- It does not stop at the script's os.exit: scripts used here return.
-- SPDX-License-Identifier: GPL-2.0-or-later
local hook = require "counthook"
local how, report, script = arg[1], arg[2], arg[3]
local counting = ({ yes = true, log = true, off = false })[how] -- each word is in memory, whichever is given
local chunk = assert(loadfile(script))
arg = { [0] = script, unpack(arg, 4) }
collectgarbage()
local first = hook.start(counting, how == "log" and report .. ".calls" or nil)
chunk()
local last = hook.stop()
hook.report(report)
return first, last
