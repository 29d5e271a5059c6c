-- Dissector of Phalanx packets for Wireshark and tshark. It is tested with 4.0 (Lua 5.2).
--
-- It reads the packets of docs/wire.md and docs/rpc.md: sealed ones as payload of UDP, and those in clear of capture files
-- (docs/captures.md), whose names of members and groups it knows. docs/captures.md tells how to install it.

local phalanx = Proto("phalanx", "Phalanx")

local WIRE_VERSION = 3
local FRONT_VERSION = 1
local FRONT_BYTES = 24
local HEADER_BYTES = 24
local SEAL_BYTES = 16
local CHECKSUM_BYTES = 4
-- Items in the tree of one packet. Wireshark gives up a packet that has a million.
local ITEMS_MAX = 20000
-- Frames that the info column names.
local LABELS_MAX = 8

local KINDS = {
  [1] = "greeting", [2] = "direct", [3] = "spread", [4] = "control", [5] = "data", [6] = "multicast", [7] = "open",
  [8] = "session", [9] = "plain", [10] = "to-one",
}
local ORDERS = { [0] = "fifo", [1] = "causal", [2] = "total", [3] = "total, ordered here" }
local PIECES = { [0] = "whole", [1] = "first", [2] = "middle", [3] = "last" }
local REASONS = {
  [0] = "asked to leave", [1] = "proved dead", [2] = "unreachable", [3] = "too slow", [4] = "sends nonsense",
  [5] = "takes the state anew", [6] = "the group stopped", [7] = "no progress",
}
local PATHS = {
  [0] = "data socket", [1] = "long packets to the data socket", [2] = "long packets between control sockets",
  [3] = "silence",
}
local REFUSALS = {
  [0] = "other", [1] = "busy", [2] = "no such service", [3] = "too long", [4] = "no packet numbers left",
}
local SETTINGS = {
  [1] = "limits.group_window", [2] = "limits.watchers", [3] = "limits.slow_members", [4] = "timing.heartbeat",
  [5] = "timing.suspect_after", [6] = "timing.ballot_step", [7] = "timing.expel_after", [8] = "limits.members_min",
}

phalanx.prefs.unsealed = Pref.bool("Datagrams are not sealed", false,
  "Read the frames of datagrams of a cell with security 'none'. Nothing in a packet says that it is not sealed: "
    .. "of a sealed one this shows nonsense.")

local experts = {
  malformed = ProtoExpert.new("phalanx.malformed", "Malformed", expert.group.MALFORMED, expert.severity.ERROR),
  cut = ProtoExpert.new("phalanx.cut", "The capture does not hold the whole packet", expert.group.UNDECODED,
    expert.severity.NOTE),
  unknown = ProtoExpert.new("phalanx.unknown", "Of a later build", expert.group.UNDECODED, expert.severity.NOTE),
  long = ProtoExpert.new("phalanx.long", "Too much to show", expert.group.UNDECODED, expert.severity.NOTE),
}
phalanx.experts = { experts.malformed, experts.cut, experts.unknown, experts.long }

-- All fields, by their names without "phalanx.".
local fields = {}

local function field(name, make)
  if not fields[name] then fields[name] = make("phalanx." .. name) end
  return fields[name]
end

local function uint64(name, label, display)
  return field(name, function(full) return ProtoField.uint64(full, label, display or base.DEC) end)
end
local function uint32(name, label, display)
  return field(name, function(full) return ProtoField.uint32(full, label, display or base.DEC) end)
end
local function uint8(name, label, display, values)
  return field(name, function(full) return ProtoField.uint8(full, label, display or base.DEC, values) end)
end
local function text_field(name, label)
  return field(name, function(full) return ProtoField.string(full, label) end)
end
local function bytes_field(name, label)
  return field(name, function(full) return ProtoField.bytes(full, label) end)
end
local function bool_field(name, label)
  return field(name, function(full) return ProtoField.bool(full, label) end)
end

-- Names --------------------------------------------------------------------------------------------------------------

-- What the comments of the file say. Incarnations and spaces never get another meaning, so a name holds for packets
-- before it, too.
local names = {}

local function forget_names()
  names.members = {} -- by incarnation, 16 hexadecimal digits
  names.sockets = {} -- by address and port
  names.views = {} -- by space, 8 hexadecimal digits: group, view, members by rank
end
forget_names()

local function unescaped(name)
  return (name:gsub("%%(%x%x)", function(digits) return string.char(tonumber(digits, 16)) end))
end

local function learn(comment)
  local lines = comment:gmatch("[^\n]+")
  if lines() ~= "phalanx-names 1" then return end
  for line in lines do
    local who, sockets, name = line:match("^member (%x+) (%S+) (.*)$")
    if who then
      name = unescaped(name)
      names.members[who] = name
      for socket in sockets:gmatch("[^,]+") do names.sockets[socket] = name end
    end
    local space, view, first, members, group = line:match("^view (%x+) (%d+) (%d+) (%S+) (.*)$")
    if space then
      local known = names.views[space] or { ranks = {} }
      known.group, known.view = unescaped(group), view
      local rank = tonumber(first)
      for member in members:gmatch("%x+") do
        known.ranks[member] = rank
        rank = rank + 1
      end
      names.views[space] = known
    end
  end
end

-- Reading ------------------------------------------------------------------------------------------------------------

-- What ends the reading of a packet. Any other error is a mistake in this file, and is not caught.
local MALFORMED = { expert = experts.malformed }
local CUT = { expert = experts.cut }
local LONG = { expert = experts.long }

local function malformed() error(MALFORMED, 0) end

-- Shows what ended the reading. Lua's own errors are strings, and are not hidden.
local function tell(problem, tree, s)
  if type(problem) ~= "table" or not problem.expert then error(problem, 0) end
  tree:add_proto_expert_info(problem.expert)
  s:label(problem == MALFORMED and "malformed" or "...")
end

-- Reads from `at` up to `stop`. `cut`: the packet goes on there, and the capture does not.
local Cursor = {}
Cursor.__index = Cursor

local function cursor(tvb, at, stop, cut)
  return setmetatable({ tvb = tvb, at = at, stop = stop, cut = cut }, Cursor)
end

function Cursor:is_empty() return self.at >= self.stop and not self.cut end

function Cursor:left() return self.stop - self.at end

-- Fails unless so many bytes are left.
function Cursor:need(count)
  if count > self:left() then error(self.cut and CUT or MALFORMED, 0) end
end

-- The bytes since `from`, of which there is at least one.
function Cursor:since(from) return self.tvb(from, self.at - from) end

-- The next bytes, as a range; none for 0 bytes.
function Cursor:take(count)
  self:need(count)
  local from = self.at
  self.at = from + count
  if count > 0 then return self.tvb(from, count) end
end

function Cursor:byte() return self:take(1):uint() end

-- A number of up to 64 bits, as its lower and upper half.
function Cursor:varint()
  local low, high = 0, 0
  for index = 0, 9 do
    local byte = self:byte()
    local bits = byte % 128
    if index < 4 then
      low = low + bits * 2 ^ (7 * index)
    elseif index == 4 then
      low = low + bits % 16 * 2 ^ 28
      high = math.floor(bits / 16)
    else
      high = high + bits * 2 ^ (7 * index - 32)
    end
    if byte < 128 then
      -- One number has one encoding. The tenth byte holds one bit.
      if index > 0 and byte == 0 or index == 9 and byte > 1 then malformed() end
      return low, high
    end
  end
  malformed()
end

-- A length or a count. None that is beyond 2^53 can be right.
function Cursor:count()
  local low, high = self:varint()
  return high * 2 ^ 32 + low
end

-- A cursor for the next bytes, which this one leaves behind.
function Cursor:part(count)
  self:need(count)
  local from = self.at
  self.at = from + count
  return cursor(self.tvb, from, self.at, false)
end

local function wide(low, high) return UInt64.new(low, high) end

local function hex(low, high) return string.format("%08x%08x", high, low) end

-- Addresses as the names and interfaces of a file have them (RFC 5952). Wireshark's own text may be a resolved name.
local function ipv4_text(range)
  return string.format("%d.%d.%d.%d", range(0, 1):uint(), range(1, 1):uint(), range(2, 1):uint(), range(3, 1):uint())
end

local function ipv6_text(range)
  local words = {}
  for index = 0, 7 do words[index + 1] = range(2 * index, 2):uint() end
  -- The first of the longest runs of zeros is left out, if it has two or more.
  local first, count, begin = nil, 1, nil
  for index = 1, 9 do
    if words[index] == 0 then
      begin = begin or index
    elseif begin then
      if index - begin > count then first, count = begin, index - begin end
      begin = nil
    end
  end
  local function part(from, to)
    local told = {}
    for index = from, to do table.insert(told, string.format("%x", words[index])) end
    return table.concat(told, ":")
  end
  if not first then return part(1, 8) end
  return part(1, first - 1) .. "::" .. part(first + count, 8)
end

-- A number as people write it.
local function decimal(low, high) return tostring(wide(low, high)) end

-- The tree ------------------------------------------------------------------------------------------------------------

-- What is being shown: the packet's labels for the info column, and the number of items so far.
local Shown = {}
Shown.__index = Shown

local function shown() return setmetatable({ labels = {}, labels_left_out = 0, items = 0 }, Shown) end

function Shown:count_item()
  self.items = self.items + 1
  if self.items > ITEMS_MAX then error(LONG, 0) end
end

function Shown:label(text)
  if #self.labels < LABELS_MAX then
    table.insert(self.labels, text)
  else
    self.labels_left_out = self.labels_left_out + 1
  end
end

function Shown:add(tree, what, range, value)
  self:count_item()
  if value == nil then return tree:add(what, range) end
  return tree:add(what, range, value)
end

-- A subtree for what `read` reads; it begins at the cursor.
function Shown:group(tree, c, label, read)
  self:count_item()
  c:need(1)
  local from = c.at
  local item = tree:add(c.tvb(from, c.stop - from), label)
  read(item)
  item:set_len(c.at - from)
  return item
end

local function named(item, who)
  local name = names.members[who]
  if name then item:append_text(" (" .. name .. ")") end
end

-- Values: each of these makes a reader (cursor, tree, shown) of a field. A reader returns what the label of its frame may
-- need.

local function number(name, label, display)
  local f = uint64(name, label, display)
  return function(c, tree, s)
    local from = c.at
    local low, high = c:varint()
    s:add(tree, f, c:since(from), wide(low, high))
    return low, high
  end
end

-- A number that stands for something.
local function choice(name, label, values)
  local f = uint64(name, label)
  return function(c, tree, s)
    local from = c.at
    local low, high = c:varint()
    local item = s:add(tree, f, c:since(from), wide(low, high))
    item:append_text(" (" .. (high == 0 and values[low] or "not known") .. ")")
    return low, high
  end
end

local function incarnation(name, label)
  local f = uint64(name, label, base.HEX)
  return function(c, tree, s)
    local from = c.at
    local low, high = c:varint()
    named(s:add(tree, f, c:since(from), wide(low, high)), hex(low, high))
    return low, high
  end
end

local function fixed_incarnation(name, label)
  local f = uint64(name, label, base.HEX)
  return function(c, tree, s)
    local range = c:take(8)
    local value = range:le_uint64()
    named(s:add(tree, f, range, value), hex(value:lower(), value:higher()))
  end
end

local function fixed64(name, label, display)
  local f = uint64(name, label, display or base.HEX)
  return function(c, tree, s)
    local range = c:take(8)
    s:add(tree, f, range, range:le_uint64())
  end
end

local function byte(name, label, values, display)
  local f = uint8(name, label, display, values)
  return function(c, tree, s)
    local range = c:take(1)
    s:add(tree, f, range)
    return range:uint()
  end
end

local function boolean(name, label)
  local f = bool_field(name, label)
  return function(c, tree, s)
    local range = c:take(1)
    if range:uint() > 1 then malformed() end
    s:add(tree, f, range, range:uint() == 1)
    return range:uint()
  end
end

local function text(name, label)
  local f = text_field(name, label)
  return function(c, tree, s)
    local from = c.at
    local range = c:take(c:count())
    s:add(tree, f, c:since(from), range and range:string(ENC_UTF_8) or "")
  end
end

local function fixed_bytes(name, label, count)
  local f = bytes_field(name, label)
  return function(c, tree, s) s:add(tree, f, c:take(count)) end
end

-- Bytes behind their length.
local function bytes(name, label)
  local f = bytes_field(name, label)
  return function(c, tree, s)
    local from = c.at
    local count = c:count()
    if count == 0 then
      s:add(tree, c:since(from), label .. ": none")
    else
      s:add(tree, f, c:take(count))
    end
    return count
  end
end

local function address(name, label)
  local f = text_field(name, label)
  return function(c, tree, s)
    local from = c.at
    local version, at = c:varint(), nil
    if version == 0 then
      at = ipv4_text(c:take(4))
    elseif version == 1 then
      at = "[" .. ipv6_text(c:take(16)) .. "]"
    else
      malformed()
    end
    local port = c:count()
    if port > 65535 then malformed() end
    local item = s:add(tree, f, c:since(from), string.format("%s:%d", at, port))
    local name_there = names.sockets[string.format("%s:%d", at, port)]
    if name_there then item:append_text(" (" .. name_there .. ")") end
  end
end

local function all(readers)
  return function(c, tree, s)
    for _, read in ipairs(readers) do read(c, tree, s) end
  end
end

local function group(label, readers)
  local read = all(readers)
  return function(c, tree, s)
    s:group(tree, c, label, function(item) read(c, item, s) end)
  end
end

local function list(label, read)
  return function(c, tree, s)
    s:group(tree, c, label, function(item)
      local count = c:count()
      item:append_text(string.format(": %.0f", count))
      -- An entry has a byte at least.
      c:need(count)
      for _ = 1, count do read(c, item, s) end
    end)
  end
end

local function optional(label, read)
  return function(c, tree, s)
    local range = c:take(1)
    local is_there = range:uint()
    if is_there > 1 then malformed() end
    if is_there == 1 then return read(c, tree, s) end
    s:add(tree, range, label .. ": none")
  end
end

-- A value of one of several kinds: `kinds` by number, each with its label and the readers of its fields.
local function one_of(name, label, kinds)
  local f = uint64(name, label)
  return function(c, tree, s)
    local from = c.at
    local low, high = c:varint()
    local kind = high == 0 and kinds[low]
    local item = s:add(tree, f, c:since(from), wide(low, high))
    item:append_text(" (" .. (kind and kind[1] or "not known") .. ")")
    if not kind then malformed() end
    local told = kind[1]
    for index = 2, #kind do
      local _, _, inner = kind[index](c, tree, s)
      if inner then told = told .. ": " .. inner end
    end
    return low, high, told
  end
end

-- A tail: tagged entries. `known`: by tag, a label and maybe a reader of the entry.
local tag_reader = number("tail.tag", "Tag")
local entry_bytes = bytes_field("tail.entry", "Entry")

local function tail(label, known)
  return function(c, tree, s)
    s:group(tree, c, label, function(item)
      local entries = c:part(c:count())
      if entries:is_empty() then item:append_text(": none") end
      local least = 0
      while not entries:is_empty() do
        s:group(item, entries, "Entry", function(entry)
          local low, high = tag_reader(entries, entry, s)
          local tag = high * 2 ^ 32 + low
          if tag < least then malformed() end
          least = tag + 1
          local meaning = known and known[tag]
          if meaning then entry:append_text(": " .. meaning[1]) end
          local from = entries.at
          local count = entries:count()
          local inside = entries:part(count)
          if meaning and meaning[2] then
            meaning[2](inside, entry, s)
          elseif count > 0 then
            s:add(entry, entry_bytes, entries.tvb(inside.at, count))
          else
            s:add(entry, entries:since(from), "no bytes")
          end
        end)
      end
    end)
  end
end

-- What reads the frames of a packet, by its kind. A function may have 200 local variables, so each section below keeps its
-- own in a block.
local CONTENTS = {}

-- Values of docs/wire.md ----------------------------------------------------------------------------------------------

local values
do

local decree = number("decree", "Decree")
local view = number("view", "View")
local level = number("level", "Level")
local space = number("frame.space", "Space", base.HEX)
local rank = number("rank", "Rank")
local prefix = number("prefix", "Prefix")
local group_id = number("group_id", "Group")
local name = text("name", "Name")
local instance = number("instance", "Instance", base.HEX)
local who = incarnation("incarnation", "Incarnation")
local seat = number("seat", "Seat", base.HEX)
local distance = number("distance", "Distance of its rank")

local ballot = group("Ballot", { number("round", "Round"), rank })
local reason = choice("reason", "Reason", REASONS)
local left = list("Members that go", group("Member", { who, reason }))
local joined = list("Members that come", who)

local setting_tail = {}
for tag, setting in pairs(SETTINGS) do setting_tail[tag] = { setting, number("setting", "Value") } end
local settings = tail("Agreed settings", setting_tail)

local member = group("Member", {
  who, name, address("data_address", "Data address"), address("control_address", "Control address"),
  number("host", "Host", base.HEX), number("longest_packet", "Longest packet"),
  number("receive_packets", "Packets its receive buffer holds"), level,
  tail("Tail of the member", {
    [1] = { "its own settings", function(c, tree, s)
      -- The entry is the tail's entries, without their length.
      while not c:is_empty() do
        tag_reader(c, tree, s)
        bytes("tail.entry", "Entry")(c, tree, s)
      end
    end },
    [2] = { "seat", seat },
    [3] = { "earlier incarnations whose state it kept", list("Incarnations", who) },
    [4] = { "longest gap between two polls, in microseconds", number("turn_gap", "Gap") },
  }),
})
local cut = group("Cut", {
  number("members", "Members"), list("Streams", group("Stream", { distance, prefix, incarnation("holder", "Holder") })),
})
local prefixes = group("Prefixes", {
  group_id, number("members", "Members"), list("Streams", group("Stream", { distance, prefix })),
})
local holder = group("Holder", { who, seat, boolean("stayed", "Was in the view before"), name })
local domains = list("Domains", group("Domain", { name, number("domain.version", "Version") }))
local group_tail = {
  [1] = { "multicasts are uniform by default", number("uniform_default", "Uniform by default") },
  [2] = { "least members of an adequate view", number("members_min", "Least members") },
  [3] = { "members that were in the view before, and prefixes of its cut" },
  [4] = { "the group waits for holders", all({ number("members", "Members"), list("Holders", holder) }) },
  [5] = { "the group came back" },
  [6] = { "holders that are removed", list("Incarnations", who) },
  [7] = { "ends instead of waiting", number("ends_alone", "Ends alone") },
  [8] = { "members whose state is not complete", list("Incarnations", who) },
  [9] = { "its last view in the earlier instance" },
  [10] = { "has a state", number("has_state", "Has a state") },
  [11] = { "observers", list("Incarnations", who) },
  [12] = { "generations of the cell since" },
  [13] = { "domains of the state", domains },
}
local group_change = group("Group change", {
  group_id, name, view, space, optional("Cut", cut), joined, left, tail("Tail of the change", group_tail),
})
local next_group, next_space = number("next_group", "Next group"), number("next_space", "Next space", base.HEX)
local proposal_tail = {
  [3] = { "the view, and former members that may not know that they are out" },
  [5] = { "members left out recently" },
}
local proposal = group("Proposal", {
  decree, view, list("Members that come", member), left, list("Group changes", group_change), next_group, next_space,
  level, settings, tail("Tail of the proposal", proposal_tail),
})
local directory = group("Directory", {
  decree, view, list("Members", member),
  list("Groups", group("Group", {
    group_id, name, view, space, list("Members", who), tail("Tail of the group", group_tail),
  })),
  list("Left out recently", who), next_group, next_space, level, settings,
  tail("Tail of the directory", {
    [2] = { "earlier instances" }, [3] = proposal_tail[3],
    [4] = { "members whose streams made no sense", list("Incarnations", who) }, [5] = proposal_tail[5],
  }),
})
local first_view = group("First view", { instance, list("Members", member), level, settings })

local founding_ballot = group("Ballot", { number("round", "Round"), incarnation("leader", "Leader") })
local founder_names = list("Names", name)
local last_view = group("Last view", { instance, view, founder_names })
local record = group("Record", {
  optional("Bootstrap marker", group("Bootstrap marker", {
    instance, optional("List", group("List", { founding_ballot, first_view })),
  })),
  optional("Member heard", group("Member heard", { instance, address("address", "Address") })),
  optional("Last view", last_view),
  optional("End", group("End", { one_of("end", "End", {
    [0] = { "left", instance },
    [1] = { "ended", instance, view, list("Former members", group("Member", { who, seat, name })) },
  }) })),
})
local founding = one_of("founding", "Message of founding", {
  [0] = { "ask", founding_ballot, founder_names, list("Members asked", member) },
  [1] = { "report", founding_ballot, record },
  [2] = { "refusal", founding_ballot, one_of("founding_refusal", "Why", {
    [0] = { "a later ballot was promised", founding_ballot },
    [1] = { "other names", founder_names },
    [2] = { "another process has its name", address("address", "Address") },
    [3] = { "other settings" },
  }) },
  [3] = { "proposal", founding_ballot, first_view },
  [4] = { "acceptance", founding_ballot },
  [5] = { "decision", founding_ballot },
  [6] = { "marked", instance },
  [7] = { "confirmed", first_view },
  [8] = { "dead", founding_ballot, list("Last views", group("Founder", { name, optional("Last view", last_view) })),
    optional("Former members", founder_names) },
})

values = {
  decree = decree, view = view, level = level, space = space, rank = rank, prefix = prefix, group_id = group_id, name = name,
  domains = domains,
  instance = instance, who = who, ballot = ballot, joined = joined, left = left, member = member, cut = cut,
  prefixes = prefixes, proposal = proposal, directory = directory, first_view = first_view, names = founder_names,
  founding = founding,
}
end

-- Frames of docs/wire.md ------------------------------------------------------------------------------------------------

local frame_kind = uint8("frame", "Frame", base.DEC)
local frame_name = text_field("frame.name", "Name of the frame")

-- Names a frame for filters, and its subtree.
local function title(item, s, name_of, told)
  item:set_text(told or name_of)
  s:add(item, frame_name, name_of:lower()):set_generated()
end

-- Reads frames up to the end of the packet, each in a subtree of its own. `read` gets the first byte.
local function frames(c, tree, s, read)
  while not c:is_empty() do
    s:group(tree, c, "Frame", function(item)
      local first = c:take(1)
      s:add(item, frame_kind, first)
      s.frames = (s.frames or 0) + 1
      read(first:uint(), c, item, s)
    end)
  end
end

-- Half of a number: what is above its lowest bit.
local function half(low, high) return math.floor(low / 2) + high % 2 * 2 ^ 31, math.floor(high / 2) end

-- A number whose lowest bit is a flag.
local function flagged(name_of, label, flag_name, flag_label, display)
  local f, flag = uint64(name_of, label, display), bool_field(flag_name, flag_label)
  return function(c, tree, s)
    local from = c.at
    local low, high = c:varint()
    local upper_low, upper_high = half(low, high)
    s:add(tree, f, c:since(from), wide(upper_low, upper_high))
    s:add(tree, flag, c:since(from), low % 2 == 1)
    return upper_low, upper_high, low % 2 == 1
  end
end

local frame_bytes = bytes_field("frame.unknown", "Frame of a later build")
local body = bytes_field("message", "Message")

-- A frame with its length, of a later build.
local function skip(c, tree, s)
  local count = c:count()
  local inside = c:part(count)
  if count > 0 then s:add(tree, frame_bytes, c.tvb(inside.at, count)) end
  tree:add_proto_expert_info(experts.unknown)
  s:label("unknown frame")
end

-- The fields of a frame with its length. A later build may have more of them.
local function within_length(read)
  return function(c, tree, s)
    read(c:part(c:count()), tree, s)
  end
end

-- Best-effort frames.
do

local decree, view, rank = values.decree, values.view, values.rank

-- The group and view of a space, or the space. A space has 32 bits.
local function group_of(low, high)
  if high > 0 then malformed() end
  local known = names.views[string.format("%08x", low)]
  if known then return known.group .. "/" .. known.view end
  return string.format("space %x", low)
end

local rank_field = uint64("rank", "Rank")
local function rank_list(label)
  return function(c, tree, s)
    s:group(tree, c, label, function(item)
      local count = c:count()
      item:append_text(string.format(": %.0f", count))
      c:need(count)
      local next_rank = 0
      for _ = 1, count do
        local from = c.at
        local there = next_rank + c:count()
        if there > 65535 then malformed() end
        s:add(item, rank_field, c:since(from), wide(there, 0))
        next_rank = there + 1
      end
    end)
  end
end

local gap_field = text_field("ack.gap", "Gap")
local limit = number("ack.limit", "Limit")
local ack_prefix = number("ack.prefix", "Prefix")

-- An acknowledgement, behind what it is of.
local function acknowledgement(c, tree, s, of)
  local low, high = ack_prefix(c, tree, s)
  limit(c, tree, s)
  local gaps = 0
  s:group(tree, c, "Gaps", function(item)
    gaps = c:count()
    item:append_text(string.format(": %.0f", gaps))
    c:need(gaps)
    local at = high * 2 ^ 32 + low
    for _ = 1, gaps do
      local from = c.at
      local first = at + c:count()
      local last = first + c:count()
      s:add(item, gap_field, c:since(from), string.format("%.0f to %.0f", first, last))
      at = last
    end
  end)
  s:label(string.format("ack of %s up to %s%s", of, decimal(low, high), gaps > 0 and " with gaps" or ""))
end

local ack_space = flagged("ack.space", "Space", "ack.wants_status", "Wants a status", base.HEX)
local status_space = flagged("status.space", "Space", "status.blocked", "Blocked", base.HEX)
local status_sent, status_stable = number("status.sent", "Last packet sent"), number("status.stable", "Stable up to")
local heard_bits = bytes_field("heartbeat.hears", "Hears")
local depth = flagged("heartbeat.depth", "Depth", "heartbeat.asks", "Asks for heartbeats in return")
local digest = fixed64("heartbeat.digest", "Digest")
local report_version = number("link_report.version", "Version")
local suspects, hears_besides = rank_list("Suspects"), rank_list("Hears besides")
local slow = all({ decree, boolean("slow_report.excused", "A state transfer holds it up"), rank_list("Too slow") })
local probe_answer = bool_field("probe.answer", "Answer")
local probe_path = uint8("probe.path", "Path", base.DEC, PATHS)
local probe_time = fixed64("probe.sent", "Sent at", base.DEC)
local findings = all({
  decree,
  list("Failed paths", group("Path", {
    rank, byte("findings.path", "Kind", PATHS), number("findings.number", "Suspicion"),
  })),
  list("Checked suspicions", group("By", { rank, number("findings.number", "Suspicion") })),
})
local findings_end = all({
  rank_list("Proved dead"), list("Waiting, and reached", fixed_incarnation("incarnation", "Incarnation")),
})

local BEST_EFFORT = {
  [1] = { "Acknowledgement of a stream", function(c, tree, s)
    local low, high = ack_space(c, tree, s)
    acknowledgement(c, tree, s, group_of(low, high))
  end },
  [2] = { "Acknowledgement of the control channel", function(c, tree, s) acknowledgement(c, tree, s, "control") end },
  [3] = { "Acknowledgement of the data channel", function(c, tree, s) acknowledgement(c, tree, s, "data") end },
  [9] = { "Acknowledgement of the channel for messages to one", function(c, tree, s) acknowledgement(c, tree, s, "to-one") end },
  [4] = { "Status", function(c, tree, s)
    local low, high = status_space(c, tree, s)
    local sent_low, sent_high = status_sent(c, tree, s)
    status_stable(c, tree, s)
    local of = group_of(low, high)
    s:label(string.format("status of %s: sent %s", of, decimal(sent_low, sent_high)))
  end },
  [5] = { "Heartbeat", function(c, tree, s)
    decree(c, tree, s)
    local from = c.at
    local count = c:count()
    if count > 65536 then malformed() end
    s:add(tree, c:since(from), string.format("Members: %d", count))
    if count > 0 then
      local range = c:take(math.ceil(count / 8))
      local last = range(range:len() - 1, 1):uint()
      if count % 8 > 0 and math.floor(last / 2 ^ (count % 8)) > 0 then malformed() end
      s:add(tree, heard_bits, range)
    end
    s:label("heartbeat")
  end },
  [6] = { "Notice of exclusion", function(c, tree, s)
    view(c, tree, s)
    s:label("exclusion")
  end },
  [7] = { "Heartbeat of a large cell", function(c, tree, s)
    decree(c, tree, s)
    depth(c, tree, s)
    digest(c, tree, s)
    s:label("heartbeat")
  end },
  [8] = { "Link-state report", function(c, tree, s)
    decree(c, tree, s)
    rank(c, tree, s)
    report_version(c, tree, s)
    suspects(c, tree, s)
    hears_besides(c, tree, s)
    s:label("link-state report")
  end },
  [65] = { "Slow-member report", within_length(function(c, tree, s)
    slow(c, tree, s)
    s:label("slow-member report")
  end) },
  [66] = { "Probe", within_length(function(c, tree, s)
    local what = c:take(1)
    local path = math.floor(what:uint() / 2)
    if path > 2 then malformed() end
    s:add(tree, probe_answer, what, what:uint() % 2 == 1)
    s:add(tree, probe_path, what, path)
    probe_time(c, tree, s)
    s:label(what:uint() % 2 == 1 and "answer to a probe" or "probe")
  end) },
  [67] = { "Findings", within_length(function(c, tree, s)
    findings(c, tree, s)
    if not c:is_empty() then findings_end(c, tree, s) end
    s:label("findings")
  end) },
}

local function best_effort(c, tree, s)
  frames(c, tree, s, function(first, c, item, s)
    local known = BEST_EFFORT[first]
    if known then
      title(item, s, known[1])
      known[2](c, item, s)
    elseif first % 128 >= 64 then
      title(item, s, "Frame of a later build")
      skip(c, item, s)
    else
      malformed()
    end
  end)
end

CONTENTS[2], CONTENTS[3] = best_effort, best_effort
end

-- Stream frames.
do

local stream = {
  order = uint8("message.order", "Order", base.DEC, ORDERS),
  uniform = bool_field("message.uniform", "Uniform"),
  piece = uint8("message.piece", "Piece", base.DEC, PIECES),
  asks = bool_field("message.asks", "Asks: its bytes begin with those that are to answer"),
  domain = uint8("message.domain", "Domain to which alone it goes", base.DEC),
  whole_len = number("message.len", "Length of the whole message"),
  dependencies = list("Dependencies", group("Dependency", { values.rank, number("growth", "Growth") })),
  tenure = flagged("tenure", "Tenure", "announcement.prompt", "Prompt"),
  runs = list("Runs", group("Run", { values.rank, number("abcasts", "Abcasts") })),
  ending = number("tenure", "Tenure"),
  holder = number("token.next", "Rank of the next holder"),
  stable = number("stability.prefix", "Stable up to"),
}

-- The domain that a message's head names: a varint from 16,000 on.
local function named_domain(range)
  if range:len() < 2 then return nil end
  local low, high = range(0, 1):uint(), range(1, 1):uint()
  local number = low - 128 + 128 * high
  return low >= 128 and high < 128 and number >= 16000 and number - 16000 or nil
end

local function message(first, c, item, s)
  local has_head = math.floor(first / 4) % 2 == 1
  local order, piece = math.floor(first / 32) % 4, first % 4
  local is_uniform = math.floor(first / 16) % 2 == 1
  local head = c:since(c.at - 1)
  s:add(item, stream.order, head, order)
  s:add(item, stream.uniform, head, is_uniform)
  s:add(item, stream.piece, head, piece)
  if math.floor(first / 8) % 2 == 1 then stream.dependencies(c, item, s) end
  if piece == 1 then stream.whole_len(c, item, s) end
  local count = c:count()
  local range = c:take(count)
  -- The first piece holds the head.
  local domain = has_head and piece < 2 and range and named_domain(range) or nil
  local asks = has_head and piece < 2 and not domain
  s:add(item, stream.asks, head, asks)
  if domain then s:add(item, stream.domain, range(0, 2), domain) end
  local what = domain and ", to domain " .. domain or asks and ", ask" or ""
  local label = ORDERS[order] .. (is_uniform and ", uniform" or "") .. what
  title(item, s, "Message", string.format("Message: %s, %s, %.0f bytes", label, PIECES[piece], count))
  s:label(string.format("%s %s, %.0f B", piece == 0 and "message" or PIECES[piece] .. " piece", label, count))
  if range then s:add(item, body, range) end
end

local STREAM = {
  [1] = { "Announcement", function(c, tree, s)
    local low, high = stream.tenure(c, tree, s)
    stream.runs(c, tree, s)
    s:label("announcement of tenure " .. decimal(low, high))
  end },
  [2] = { "Token pass", function(c, tree, s)
    stream.ending(c, tree, s)
    local low, high = stream.holder(c, tree, s)
    s:label("token to rank " .. decimal(low, high))
  end },
  [3] = { "Stability", function(c, tree, s)
    local low, high = stream.stable(c, tree, s)
    s:label("stable up to " .. decimal(low, high))
  end },
  [4] = { "Past", function(c, tree, s)
    stream.dependencies(c, tree, s)
    s:label("past")
  end },
}

local function stream_frames(c, tree, s)
  frames(c, tree, s, function(first, c, item, s)
    if first >= 128 then return message(first, c, item, s) end
    local known = STREAM[first]
    if known then
      title(item, s, known[1])
      known[2](c, item, s)
    elseif first >= 64 then
      title(item, s, "Frame of a later build")
      skip(c, item, s)
    else
      malformed()
    end
  end)
end

CONTENTS[6] = stream_frames
end

-- Messages of the channels, and greetings.
do

local decree, view, rank, space, prefix = values.decree, values.view, values.rank, values.space, values.prefix
local group_id, name, instance, who, ballot = values.group_id, values.name, values.instance, values.who, values.ballot
local member, proposal, founder_names = values.member, values.proposal, values.names

local function recovered_frames(c, tree, s)
  s:group(tree, c, "Frames of the packet", function(item)
    -- Their fault is not that of the message.
    local inside = c:part(c:count())
    local is_read, problem = pcall(CONTENTS[6], inside, item, s)
    if not is_read then tell(problem, item, s) end
  end)
end

local request = group("Request", { name, boolean("request.join", "Come"), boolean("request.only_new", "Only if it is new") })
local CONTROL = {
  [0] = { "wedge", decree, ballot, list("Groups that may change", group_id),
    list("Cuts to be held first", group("Group", { group_id, values.cut })) },
  [1] = { "report", decree, ballot, optional("Accepted proposal", group("Accepted proposal", { ballot, proposal })),
    list("Prefixes", values.prefixes) },
  [2] = { "refusal", decree, ballot },
  [3] = { "proposal", ballot, proposal },
  [4] = { "acceptance", decree, ballot },
  [5] = { "decision", proposal },
  [6] = { "welcome", instance, values.directory, proposal },
  [7] = { "fetch", space, rank, number("fetch.first", "First packet wanted"), number("fetch.last", "Last packet wanted") },
  [8] = { "recovered packet", space, rank, number("frame.number", "Number"), recovered_frames },
  [9] = { "membership requests", decree, list("Requests about groups", request),
    number("request.level", "Level to rise to") },
  [10] = { "leave" },
  [11] = { "of an earlier build" },
  [12] = { "ping" },
  [13] = { "of an earlier build" },
  [14] = { "unreadable", decree, optional("Ballot", ballot), list("Groups", group("Group", { group_id,
    list("Streams", group("Stream", { rank, prefix, boolean("unreadable.next", "The next packet makes no sense") })) })) },
  [15] = { "holds the state", group_id, view },
  [16] = { "founding", values.founding },
  [17] = { "out" },
  [18] = { "part of a welcome", decree, number("part.len", "Length of the whole"), number("part.offset", "Offset"),
    bytes("part.bytes", "Bytes") },
}
local CONTROL_TAILS = {
  [1] = {
    [1] = { "groups whose state it has in part", list("Groups", group_id) },
    [2] = { "groups whose state it gives", list("Groups", group_id) },
    [3] = { "groups whose state it takes", list("Groups", group_id) },
  },
  [9] = {
    [1] = { "terms of the groups" }, [2] = { "returns" }, [3] = { "groups that are to wait no more", founder_names },
    [4] = { "incarnations proved dead", list("Incarnations", who) }, [5] = { "groups that end instead of waiting" },
    [6] = { "requests for a state" }, [7] = { "requests of observers" },
    [8] = { "domains that it has", list("Groups", group("Group", {
      name, list("Domains", group("Domain", {
        name, number("domain.version", "Version"), boolean("domain.optional", "May do without it"),
      })),
    })) },
  },
  [10] = { [1] = { "the sender waits" } },
  [16] = { [1] = { "groups that wait, of the marker or the first view" }, [2] = { "groups that wait, of the end" } },
}

local transfer = number("transfer", "Transfer", base.HEX)
local STATE = {
  [0] = { "ask", group_id, view, transfer },
  [1] = { "begin", transfer, optional("Bytes of the snapshot", number("snapshot.bytes", "Bytes of the snapshot")) },
  [2] = { "chunk", transfer, number("snapshot.offset", "Offset"), bytes("snapshot.chunk", "Bytes") },
  [3] = { "replayed delivery", transfer, view, incarnation("replay.sender", "Sender"), number("replay.number", "Number"),
    byte("replay.order", "Order", {
      [0] = "fifo", [1] = "causal", [2] = "total", [4] = "fifo, uniform", [5] = "causal, uniform", [6] = "total, uniform",
    }), optional("Place", number("replay.place", "Place in the total order")), bytes("message", "Message") },
  [4] = { "caught up", transfer },
  [5] = { "done", transfer, view },
  [6] = { "aborted", transfer },
  [7] = { "taken", transfer, number("snapshot.taken", "Bytes") },
  [8] = { "replayed view", transfer, view, list("Members", member), values.joined, values.left,
    list("Members without the whole state", who), list("Observers", who),
    optional("Has a state", boolean("replay.has_state", "Has a state")), boolean("replay.uniform", "Uniform by default"),
    number("members_min", "Least members"), boolean("replay.ends_alone", "Ends alone") },
}
local STATE_TAILS = {
  [1] = { [1] = { "view of the snapshot", view }, [2] = { "domains listed in it", values.domains } },
  [3] = { [1] = { "domain to which alone it goes", number("replay.domain", "Domain") } },
  [8] = { [1] = { "domains listed in it", values.domains } },
}

-- A message, its tail, and nothing else. `tails` has the entries of the tails by kind.
local function value_with_tail(read, tails)
  local readers = {}
  for kind, known in pairs(tails) do readers[kind] = tail("Tail", known) end
  local other = tail("Tail")
  return function(c, tree, s)
    local kind, _, label = read(c, tree, s)
    local read_tail = readers[kind] or other
    read_tail(c, tree, s)
    if not c:is_empty() then malformed() end
    return label
  end
end

local control_message = value_with_tail(one_of("control", "Control message", CONTROL), CONTROL_TAILS)
local state_message = value_with_tail(one_of("state", "Message of a state transfer", STATE), STATE_TAILS)

local piece_begins = bool_field("piece.begins", "The message begins here")
local piece_ends = bool_field("piece.ends", "The message ends here")
local piece_bytes = bytes_field("piece.bytes", "Bytes")
local piece_whole = number("piece.whole", "Length of the whole message")

-- The frames of a channel. `read` reads a whole message and returns its label.
local function channel_frames(read)
  return function(c, tree, s)
    frames(c, tree, s, function(flags, c, item, s)
      if flags > 3 then malformed() end
      local head = c:since(c.at - 1)
      local begins, ends = flags >= 2, flags % 2 == 1
      s:add(item, piece_begins, head, begins)
      s:add(item, piece_ends, head, ends)
      if begins then piece_whole(c, item, s) end
      local count = c:count()
      local what = begins and (ends and "message" or "first piece") or (ends and "last piece" or "middle piece")
      title(item, s, "Piece", string.format("%s of %.0f bytes", what, count))
      if not (begins and ends) or count == 0 then
        s:label(string.format("%s of %.0f B", what, count))
        local range = c:take(count)
        if range then s:add(item, piece_bytes, range) end
      else
        read(c:part(count), item, s)
      end
    end)
  end
end

local control_frames = channel_frames(function(c, item, s)
  local label = control_message(c, item, s)
  item:set_text("Control message: " .. label)
  s:label(label)
end)

local CONTENT = { [0] = "of the application", [1] = "of a state transfer" }
local channel_content = uint8("data.content", "Content", base.DEC, CONTENT)
local data_frames = channel_frames(function(c, item, s)
  local content = c:take(1)
  s:add(item, channel_content, content)
  if content:uint() == 0 then
    local range = c:left() > 0 and c:take(c:left())
    if range then s:add(item, body, range) end
    s:label(string.format("message of %d B", range and range:len() or 0))
  elseif content:uint() == 1 then
    local label = state_message(c, item, s)
    item:set_text("State transfer: " .. label)
    s:label("state transfer: " .. label)
  else
    malformed()
  end
end)

-- Messages to one member: the group and the first view of both come first.
local to_one_since = number("to_one.since", "First view of both")
local to_one_view = number("to_one.view", "Views since then")
local to_one_past = list("Past", group("Of", { rank, number("to_one.growth", "Growth") }))
local to_one_delivered = number("to_one.delivered", "Delivered")
local to_one_granted = number("to_one.granted", "May send up to")
local TO_ONE = { [0] = "message", [1] = "answer", [2] = "report", [3] = "last report" }
local to_one_kind = uint8("to_one.kind", "Message", base.DEC, TO_ONE)
local to_one_frames = channel_frames(function(c, item, s)
  local kind = c:take(1)
  s:add(item, to_one_kind, kind)
  local label = TO_ONE[kind:uint()]
  if not label then malformed() end
  group_id(c, item, s)
  to_one_since(c, item, s)
  if kind:uint() < 2 then
    to_one_view(c, item, s)
    to_one_past(c, item, s)
    local range = c:left() > 0 and c:take(c:left())
    if range then s:add(item, body, range) end
    label = string.format("%s of %d B", label, range and range:len() or 0)
  else
    to_one_delivered(c, item, s)
    if kind:uint() == 2 then to_one_granted(c, item, s) end
    if not c:is_empty() then malformed() end
  end
  item:set_text("To one: " .. label)
  s:label(label)
end)

local nonce, stamp = number("nonce", "Nonce", base.HEX), number("stamp", "Stamp")
local cookie = fixed_bytes("cookie", "Cookie", 16)
local GREETING = {
  [0] = { "probe", member, nonce, optional("Member of", group("Member of", { instance, view })), bytes("padding", "Padding") },
  [1] = { "challenge", nonce, stamp, cookie, view, address("coordinator", "Control address of the coordinator"),
    boolean("join_here", "A join is to go to the sender") },
  [2] = { "join", member, nonce, stamp, cookie, list("Groups wanted at once", name) },
  [3] = { "refusal", nonce, one_of("refusal", "Why", {
    [0] = { "the name is taken" },
    [1] = { "the cell is full" },
    [2] = { "a view left it out", view },
    [3] = { "a setting differs", name, text("refusal.cell", "The cell's value"), text("refusal.joiner", "The joiner's value") },
    [4] = { "it was left out recently", number("refusal.wait", "Wait, in milliseconds"),
      list("Members to communicate with", group("Member", { name, address("control_address", "Control address") })) },
  }) },
}
local GREETING_TAILS = {
  [0] = {
    [3] = { "about to found the next instance" }, [4] = { "an instance ended" }, [6] = { "groups that waited then" },
  },
  [1] = { [2] = { "instance", fixed64("instance", "Instance") }, [5] = { "the process was left out recently, and waits" } },
  [2] = { [1] = { "terms of the groups" }, [5] = { "groups that end instead of waiting" } },
}
local greeting_message = value_with_tail(one_of("greeting", "Greeting", GREETING), GREETING_TAILS)

local function greeting(c, tree, s)
  s.frames = 1
  s:label(greeting_message(c, tree, s))
end

CONTENTS[1], CONTENTS[4], CONTENTS[5], CONTENTS[10] = greeting, control_frames, data_frames, to_one_frames
end

-- Frames of docs/rpc.md -------------------------------------------------------------------------------------------------

do

local session_index = number("session_index", "Session index")
local rpc_nonce = fixed64("rpc.nonce", "Nonce")
local rpc_longest = number("longest_packet", "Longest packet")
local credit = number("credit", "Credit")
local offer = bytes("offer", "Offer")
local OPEN = {
  [1] = { "ask", rpc_longest, offer },
  [2] = { "opened", number("server_session_index", "The server's session index"), fixed64("session_secret", "Session secret"),
    byte("slots", "Slots"), rpc_longest, credit, offer },
  [3] = { "refused", byte("call.refusal", "Reason", REFUSALS) },
}

local function open_message(c, tree, s)
  s.frames = 1
  local first = c:take(1)
  local item = s:add(tree, frame_kind, first)
  local known = OPEN[first:uint()]
  if not known then malformed() end
  item:append_text(" (" .. known[1] .. ")")
  s:label(known[1])
  session_index(c, tree, s)
  rpc_nonce(c, tree, s)
  for index = 2, #known do known[index](c, tree, s) end
  -- Only an ask is padded.
end

local slot, call = byte("slot", "Slot"), number("call", "Call")

-- Slot and call, and how a label names them.
local function call_name(c, tree, s)
  local of = slot(c, tree, s)
  local low, high = call(c, tree, s)
  return string.format("%d/%s", of, decimal(low, high))
end

local fragment_seen = fixed64("fragment_ack.seen", "Greatest packet number seen", base.DEC)
local fragment_ack = all({
  fragment_seen, number("fragment_ack.limit", "Limit"), number("fragment_ack.prefix", "Prefix"),
  bytes("fragment_ack.beyond", "Beyond the first missing one"),
})

local function fragment_acknowledgement(of)
  return function(c, tree, s)
    local named_call = call_name(c, tree, s)
    fragment_ack(c, tree, s)
    s:label(of .. " " .. named_call)
  end
end

local function of_call(label, read)
  return function(c, tree, s)
    local named_call = call_name(c, tree, s)
    if read then read(c, tree, s) end
    s:label(label .. " " .. named_call)
  end
end

local function alone(label, read)
  return function(c, tree, s)
    if read then read(c, tree, s) end
    s:label(label)
  end
end

local function eight_bytes(name_of, label)
  local read = fixed64(name_of, label)
  return function(c, tree, s)
    local inside = c:part(c:count())
    if inside:left() ~= 8 then malformed() end
    read(inside, tree, s)
  end
end

local SESSION = {
  [1] = { "Acknowledgement of a request", fragment_acknowledgement("ack of request") },
  [2] = { "Acknowledgement of an answer", fragment_acknowledgement("ack of answer") },
  [3] = { "Status query", fragment_acknowledgement("query of") },
  [4] = { "Cancel", of_call("cancel") },
  [5] = { "Cancelled", of_call("cancelled", boolean("may_have_run", "It may have run")) },
  [6] = { "Credit", alone("credit", credit) },
  [7] = { "Close", alone("close") },
  [8] = { "Answer ready", of_call("ready", number("call.len", "Length")) },
  [9] = { "Ping", alone("ping") },
  [10] = { "Pong", alone("pong") },
  [64] = { "Challenge", alone("challenge", eight_bytes("challenge", "Challenge")) },
  [65] = { "Proof", alone("proof", eight_bytes("proof", "Proof")) },
}

local call_answer, call_whole = bool_field("call.answer", "Answer"), bool_field("call.whole", "Whole")
local call_wants_ack = bool_field("call.wants_ack", "Asks for an acknowledgement")
local call_refused = bool_field("call.refused", "Refusal")
local call_len, call_fragment = number("call.len", "Length of the message"), number("call.fragment", "Fragment")
local response_credit = number("response_credit", "Response credit")
local refusal_code = uint8("call.refusal", "Reason", base.DEC, REFUSALS)

-- The bytes of a message, which go to the end of the packet.
local function call_bytes(c, item, s, is_refusal)
  local count = c:left()
  if count == 0 then return end
  if is_refusal then
    s:add(item, refusal_code, c:take(1))
  else
    s:add(item, body, c:take(count))
  end
  c.at = c.stop
end

local function call_data(first, c, item, s)
  local function has(bit) return math.floor(first / bit) % 2 == 1 end
  if has(8) or has(2) or has(1) or has(4) and not has(64) then malformed() end
  local head = c:since(c.at - 1)
  s:add(item, call_answer, head, has(64))
  s:add(item, call_whole, head, has(32))
  s:add(item, call_wants_ack, head, has(16))
  s:add(item, call_refused, head, has(4))
  local named_call = call_name(c, item, s)
  local fragment = 0
  local what = has(64) and (has(4) and "refusal" or "answer") or "request"
  if not has(32) then
    call_len(c, item, s)
    local low, high = call_fragment(c, item, s)
    fragment = high * 2 ^ 32 + low
    what = string.format("%s fragment %.0f of", what, fragment)
  end
  if not has(64) and fragment == 0 then response_credit(c, item, s) end
  local frame = has(64) and "Answer" or "Request"
  title(item, s, frame, string.format("%s %s, %d bytes", what, named_call, c:left()))
  s:label(string.format("%s %s, %d B", what, named_call, c:left()))
  call_bytes(c, item, s, has(4))
end

local function session_frames(c, tree, s)
  frames(c, tree, s, function(first, c, item, s)
    if first >= 128 then return call_data(first, c, item, s) end
    local known = SESSION[first]
    if known then
      title(item, s, known[1])
      known[2](c, item, s)
    elseif first >= 66 then
      title(item, s, "Frame of a later build")
      skip(c, item, s)
    else
      malformed()
    end
  end)
end

local function plain(c, tree, s)
  s.frames = 1
  local head = c:take(1)
  local is_answer, is_whole = head:uint() % 2 == 1, math.floor(head:uint() / 2) % 2 == 1
  s:add(tree, call_answer, head, is_answer)
  s:add(tree, call_whole, head, is_whole)
  local low, high = call(c, tree, s)
  if not is_whole then
    call_len(c, tree, s)
    call_fragment(c, tree, s)
  end
  s:label(string.format("%s %s, %d B", is_answer and "answer" or "request", decimal(low, high), c:left()))
  call_bytes(c, tree, s, false)
end

CONTENTS[7], CONTENTS[8], CONTENTS[9] = open_message, session_frames, plain
end

-- Packets --------------------------------------------------------------------------------------------------------------

local header = {
  version = uint8("version", "Version"),
  kind = uint8("kind", "Kind", base.DEC, KINDS),
  cell_tag = bytes_field("cell_tag", "Cell tag"),
  sender = uint64("sender", "Sender", base.HEX),
  sender_name = text_field("sender.name", "Name of the sender"),
  space = uint32("space", "Space", base.HEX),
  number = uint64("number", "Number"),
  group = text_field("group", "Group"),
  view = text_field("group.view", "View of the group"),
  rank = uint32("sender.rank", "Rank of the sender"),
  dest = uint64("dest", "Sealed for", base.HEX),
  dest_name = text_field("dest.name", "Name of the receiver"),
  sealed = bytes_field("sealed", "Sealed frames"),
  tag = bytes_field("tag", "Tag"),
  checksum = uint32("checksum", "Checksum", base.HEX),
  count = uint32("frames", "Frames"),
}
local front = {
  version = uint8("front.version", "Version of the front"),
  len = uint8("front.len", "Length of the front"),
  sent = bool_field("front.sent", "Sent"),
  control = bool_field("front.control", "Control class"),
  memory = bool_field("front.memory", "Through memory"),
  peer = text_field("front.peer", "Peer"),
  peer_name = text_field("front.peer.name", "Name of the peer"),
}

local comment_of = Field.new("frame.comment")

local function learn_from_comments()
  for _, comment in ipairs({ comment_of() }) do
    local said = comment.value
    if type(said) == "string" then learn(said) end
  end
end

local function generated(tree, what, value) tree:add(what, value):set_generated() end

-- The header at `at`. Returns the packet's kind, if this build knows it, and the beginning of the info line.
local function read_header(tvb, at, tree)
  local first = tvb(at, 1):uint()
  local version, kind = math.floor(first / 16), first % 16
  tree:add(header.version, tvb(at, 1), version)
  tree:add(header.kind, tvb(at, 1), kind)
  if version ~= WIRE_VERSION then
    tree:add_proto_expert_info(experts.unknown, "Version " .. version .. " of the format is not known")
    return nil, "version " .. version
  end
  tree:add(header.cell_tag, tvb(at + 1, 3))
  local sender = tvb(at + 4, 8):le_uint64()
  local sender_hex = hex(sender:lower(), sender:higher())
  local sender_name = names.members[sender_hex]
  named(tree:add(header.sender, tvb(at + 4, 8), sender), sender_hex)
  if sender_name then generated(tree, header.sender_name, sender_name) end
  local space_number = tvb(at + 12, 4):le_uint()
  tree:add_le(header.space, tvb(at + 12, 4))
  local told = { KINDS[kind] or "kind " .. kind, sender_name or sender_hex }
  local known = kind == 6 and names.views[string.format("%08x", space_number)]
  if known then
    generated(tree, header.group, known.group)
    generated(tree, header.view, known.view)
    table.insert(told, known.group .. "/" .. known.view)
    if known.ranks[sender_hex] then generated(tree, header.rank, known.ranks[sender_hex]) end
  else
    table.insert(told, string.format("space %x", space_number))
  end
  tree:add_le(header.number, tvb(at + 16, 8))
  table.insert(told, "#" .. tostring(tvb(at + 16, 8):le_uint64()))
  if sender == UInt64(0) then
    tree:add_proto_expert_info(experts.malformed, "The sender is 0")
    return nil, table.concat(told, " ")
  end
  if not KINDS[kind] then
    tree:add_proto_expert_info(experts.unknown, "Kind " .. kind .. " is not known")
    return nil, table.concat(told, " ")
  end
  return kind, table.concat(told, " ")
end

-- The frames of a packet. Returns the end of the info line.
local function read_frames(kind, c, tree)
  local s = shown()
  local begin = c.at
  local is_read, problem = pcall(CONTENTS[kind], c, tree, s)
  if not is_read then tell(problem, tree, s) end
  generated(tree, header.count, s.frames or 0)
  if s.labels_left_out > 0 then table.insert(s.labels, string.format("%d more", s.labels_left_out)) end
  if c.stop == begin and #s.labels == 0 then return ": no frames" end
  return ": " .. table.concat(s.labels, "; ")
end

-- A datagram.
local function datagram(tvb, pinfo, root)
  learn_from_comments()
  pinfo.cols.protocol = "Phalanx"
  local tree = root:add(phalanx, tvb())
  local kind, told = read_header(tvb, 0, tree)
  local here, whole = tvb:captured_len(), tvb:reported_len()
  if kind and phalanx.prefs.unsealed then
    local is_whole = here == whole
    local stop = is_whole and whole - CHECKSUM_BYTES or math.min(here, whole - CHECKSUM_BYTES)
    told = told .. read_frames(kind, cursor(tvb, HEADER_BYTES, stop, not is_whole), tree)
    if is_whole then tree:add_le(header.checksum, tvb(stop, CHECKSUM_BYTES)) end
  elseif kind then
    local tag_at = whole - SEAL_BYTES
    local stop = math.min(tag_at, here)
    if stop > HEADER_BYTES then tree:add(header.sealed, tvb(HEADER_BYTES, stop - HEADER_BYTES)) end
    if tag_at >= HEADER_BYTES and here == whole then tree:add(header.tag, tvb(tag_at, SEAL_BYTES)) end
    if here < whole then tree:add_proto_expert_info(experts.cut) end
    told = string.format("%s: %d B sealed", told, math.max(tag_at - HEADER_BYTES, 0))
  end
  pinfo.cols.info = told
  return here
end

-- Whether a payload of UDP may be a packet: version, kind, sender and length. What went through memory has no tag. Text
-- does not begin so, but text of digits does: a header that is all text is none.
local function is_packet(tvb)
  if tvb:captured_len() < HEADER_BYTES then return false end
  local first = tvb(0, 1):uint()
  if math.floor(first / 16) ~= WIRE_VERSION or not KINDS[first % 16] then return false end
  if tvb(4, 8):le_uint64() == UInt64(0) then return false end
  return tvb(0, HEADER_BYTES):raw():find("[^\t\r\n -~]") ~= nil
end

function phalanx.dissector(tvb, pinfo, root)
  if tvb:captured_len() < HEADER_BYTES then return 0 end
  return datagram(tvb, pinfo, root)
end

phalanx:register_heuristic("udp", function(tvb, pinfo, root)
  if not is_packet(tvb) then return false end
  datagram(tvb, pinfo, root)
  return true
end)

-- A packet in clear: the front of the file, the header, the receiver's incarnation, the frames.
local clear = Proto("phalanx_clear", "Phalanx in clear")

local function read_front(tvb, tree)
  local flags = tvb(2, 1):uint()
  tree:add(front.version, tvb(0, 1))
  tree:add(front.len, tvb(1, 1))
  tree:add(front.sent, tvb(2, 1), flags % 2 == 1)
  tree:add(front.control, tvb(2, 1), math.floor(flags / 2) % 2 == 1)
  tree:add(front.memory, tvb(2, 1), math.floor(flags / 4) % 2 == 1)
  local family, port, peer = tvb(3, 1):uint(), tvb(4, 2):le_uint(), nil
  if family == 4 then peer = string.format("%s:%d", ipv4_text(tvb(8, 4)), port) end
  if family == 6 then peer = string.format("[%s]:%d", ipv6_text(tvb(8, 16)), port) end
  if peer then
    tree:add(front.peer, tvb(3, FRONT_BYTES - 3), peer)
    if names.sockets[peer] then generated(tree, front.peer_name, names.sockets[peer]) end
  end
  return flags % 2 == 1, peer and (names.sockets[peer] or peer)
end

local interface_of = Field.new("frame.interface_name")

-- The name of this end, or its address: the last word of its interface.
local function local_end()
  local interface = interface_of()
  local socket = interface and tostring(interface.value):match("(%S+)$")
  return socket and (names.sockets[socket] or socket)
end

function clear.dissector(tvb, pinfo, root)
  learn_from_comments()
  pinfo.cols.protocol = "Phalanx"
  local here, whole = tvb:captured_len(), tvb:reported_len()
  local tree = root:add(phalanx, tvb())
  if here < FRONT_BYTES then
    tree:add_proto_expert_info(whole > here and experts.cut or experts.malformed)
    pinfo.cols.info = "no front"
    return here
  end
  local version, at = tvb(0, 1):uint(), tvb(1, 1):uint()
  if version ~= FRONT_VERSION or at < FRONT_BYTES then
    tree:add(front.version, tvb(0, 1))
    tree:add_proto_expert_info(experts.unknown, "Version " .. version .. " of the front is not known")
    pinfo.cols.info = "front of version " .. version
    return here
  end
  local is_sent, peer = read_front(tvb, tree)
  local this = local_end()
  local from, to = peer, this
  if is_sent then from, to = this, peer end
  if from then pinfo.cols.src = from end
  if to then pinfo.cols.dst = to end
  if here < at + HEADER_BYTES then
    tree:add_proto_expert_info(whole > here and experts.cut or experts.malformed)
    pinfo.cols.info = "no header"
    return here
  end
  local kind, told = read_header(tvb, at, tree)
  local frames_at = at + HEADER_BYTES + 8
  if here < frames_at then
    tree:add_proto_expert_info(whole > here and experts.cut or experts.malformed)
  elseif kind then
    local dest = tvb(frames_at - 8, 8):le_uint64()
    local dest_hex = hex(dest:lower(), dest:higher())
    named(tree:add(header.dest, tvb(frames_at - 8, 8), dest), dest_hex)
    if names.members[dest_hex] then generated(tree, header.dest_name, names.members[dest_hex]) end
    told = told .. read_frames(kind, cursor(tvb, frames_at, here, here < whole), tree)
  end
  pinfo.cols.info = told
  return here
end

local declared = {}
for _, declared_field in pairs(fields) do table.insert(declared, declared_field) end
phalanx.fields = declared

function phalanx.init() forget_names() end

DissectorTable.get("wtap_encap"):add(wtap.USER0, clear)
DissectorTable.get("udp.port"):add_for_decode_as(phalanx)
