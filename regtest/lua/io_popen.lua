-- SPDX-License-Identifier: GPL-2.0-or-later
local p = io.popen("printf 'a b\\nc\\n'; exit 3")
print(p:read("*l"), p:read("*a"), io.type(p)) print(p:close() ~= nil, io.type(p))
local names = {}
for line in io.popen("echo x; echo y; echo z"):lines() do names[#names + 1] = line end
print(table.concat(names, ","))
local w = io.popen("tr a-z A-Z > /dev/null", "w") print(w:write("text\n") ~= nil) w:close()
print(os.execute("exit 0") ~= nil, os.execute() ~= 0, os.getenv("HOME") ~= nil, os.getenv("NO_SUCH_NAME_HERE"))
for i = 1, 5 do local q = io.popen("echo " .. i) assert(q:read("*n") == i) q:close() end
print(collectgarbage("count") > 0, pcall(io.popen, "true", "x") == false)
