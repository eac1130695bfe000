-- listeners.lua - a chat room whose memory only grows: users come, talk and go.
--
-- Its leak is a common one: an object registers a listener, and nothing removes it. The garbage collector cannot help,
-- because the list of listeners can still be reached. docs/tutorial.md finds the leak.
--
-- `luajit listeners.lua N` lets N users in (default 2000), one after the other. Each run makes the same objects.
-- SPDX-License-Identifier: GPL-2.0-or-later
local has_ljtrace, ljtrace = pcall(require, "ljtrace")

local room = { listeners = {}, history = {}, users = 0 }

function room:subscribe(listener)
  self.listeners[#self.listeners + 1] = listener
end

function room:publish(text)
  self.history[#self.history % 50 + 1] = text
end

local function join(name)
  local user = { name = name, inbox = {} }
  room.users = room.users + 1
  room:subscribe(function(text)
    user.inbox[#user.inbox + 1] = text
  end)
  return user
end

local function talk(user)
  for i = 1, 5 do
    room:publish(user.name .. " says " .. i)
  end
end

local function leave(user)
  room.users = room.users - 1
  room:publish(user.name .. " left")
end

-- what is alive now, under ljtrace
local function snapshot(name)
  collectgarbage()
  if has_ljtrace then ljtrace.snapshot(name) end
end

local users = tonumber(arg[1] or 2000)
for i = 1, users do
  local user = join("user" .. i)
  talk(user)
  leave(user)
  if i == users / 2 then snapshot("half") end
end
snapshot("end")
print(("users in the room: %d; memory in use: %d KiB"):format(room.users, collectgarbage("count")))
