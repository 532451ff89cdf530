-- Load for wrk: one kind of call, as clients make it.
--
--   KIND=warm     identify of the same 64 people again and again, each request with an id of its own kind
--   KIND=new      identify of people that nobody has seen; SEED tells one run's from another's
--   KIND=login    login of people that nobody has seen
--   KIND=modify   an e-mail address of one of the people in the file PEOPLE, another one each time
--   KIND=alias    an alias from one of those people to another, of another time each time
--   KIND=ingest   a native client's upload of 100 events that nobody has sent, of one of those people
--   KIND=bare     the same upload by a client that does not say which device it is
--   KIND=access   what one of the users in the file PEOPLE may use
--   KIND=claim    a claim of an anonymous id that nobody has seen, by a user that nobody has seen; WEB_KEY is a client key
--   KIND=more     a claim of an anonymous id that nobody has seen, by one of 1,000 users
--   KIND=property a property of one of these users, another value each time
--   KIND=collect  an upload of 100 events of one anonymous id, as the Claim dialect has them
--   KIND=one      an upload of one event of an anonymous id that nobody has claimed
--   KIND=file     the requests in the file PEOPLE, with a zero byte between them
--   KIND=get      GET /healthz, for what HTTP alone costs
--
-- Every request is put together before the clock starts, so that making the load costs the same whatever is measured.

local kind, key, seed = os.getenv("KIND"), os.getenv("WEB_KEY"), os.getenv("SEED")
local threads = 0
local requests, last = {}, 0
local events_per_upload = os.getenv("KIND") == "one" and 1 or 100

function setup(thread)
   thread:set("number", threads)
   threads = threads + 1
end

local function post(path, body)
   local proof = key:find("^owl_") and "Authorization: Bearer " or "x-mp-key: "
   return "POST " .. path .. " HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n" .. proof .. key
      .. "\r\nContent-Length: " .. #body .. "\r\n\r\n" .. body
end

local function identity_call(path, name, request_id)
   return post(path, '{"client_sdk":{"platform":"ios","sdk_vendor":"mparticle","sdk_version":"9.4.0"},"context":null,'
      .. '"environment":"development","request_id":"' .. request_id .. '","request_timestamp_ms":1762457821105,'
      .. '"known_identities":{"customerid":"' .. name .. '","email":"' .. name .. '@example.com",'
      .. '"ios_idfv":"0f3c8a6e-7f0d-4a1c-' .. name .. '"}}')
end

-- The people that this thread calls about: each thread has some of its own.
local function people()
   local mine, line = {}, 0
   for id in io.lines(os.getenv("PEOPLE")) do
      -- Two together, because an alias is about two.
      if math.floor(line / 2) % 2 == number then mine[#mine + 1] = id end
      line = line + 1
   end
   return mine
end

local function modify(person, turn)
   local function address(turn) return string.format("%s-%s-%d@example.com", seed, person, turn) end
   return post("/v1/" .. person .. "/modify",
      '{"client_sdk":{"platform":"ios","sdk_vendor":"mparticle","sdk_version":"9.4.0"},"context":null,'
      .. '"environment":"development","request_timestamp_ms":1762457821105,"identity_changes":[{"identity_type":"email",'
      .. '"old_value":"' .. address(turn - 1) .. '","new_value":"' .. address(turn) .. '"}]}')
end

local function alias(source, destination, start)
   return post("/v1/identity/" .. key .. "/alias",
      '{"request_type":"alias","environment":"development","api_key":"' .. key .. '","data":{"source_mpid":' .. source
      .. ',"destination_mpid":' .. destination .. string.format(
         ',"start_unixtime_ms":%.0f,"end_unixtime_ms":%.0f}}', start, start + 500))
end

local function upload(person, name, at)
   local device = kind == "bare" and "" or ',"das":"0f3c8a6e-7f0d-4a1c-9b53-' .. person .. '"'
   local events = {}
   for event = 1, events_per_upload do
      events[event] = '{"dt":"e","id":"' .. name .. "-" .. event .. string.format('","ct":%.0f', at + event)
         .. ',"sid":"6e5b1c2a-4e7c-4d0e-9f5d-1a2b3c4d5e6f","n":"Product Viewed","et":"Navigation","est":'
         .. string.format("%.0f", at) .. ',"attrs":{"sku":"A-1001","price":"19.99","list":"Spring"}}'
   end
   return post("/v2/" .. key .. "/events",
      '{"dt":"h","id":"' .. name .. string.format('","ct":%.0f', at) .. ',"sdk":"9.4.0","dbg":true,"mpid":' .. person
      .. device .. ',"ai":{"an":"com.example.shop","av":"4.2.0"},'
      .. '"di":{"dma":"Apple","dp":"iPhone17,1","dosv":"26.1","dlc":"en_US"},"msgs":[' .. table.concat(events, ",")
      .. "]}")
end

local function claim(name, user)
   return post("/v1/identity/claim", '{"anonymous_id":"owl_anon_' .. name .. '","user_id":"' .. user .. '"}')
end

local function property(user, value)
   return post("/v1/identity/properties", '{"user_id":"' .. user .. '","properties":{"plan":"' .. value .. '"}}')
end

-- Ids that differ from one run, thread, upload and event to the next, in the shape of a UUID.
local function uuid(upload, event)
   local run = 0
   for place = 1, #seed do run = (run * 31 + seed:byte(place)) % 4294967296 end
   return string.format("%08x-%04x-4000-8000-%08x%04x", run, number, upload, event)
end

local function collect(name, upload)
   local events = {}
   for event = 1, events_per_upload do
      events[event] = '{"client_event_id":"' .. uuid(upload, event) .. '","session_id":"' .. uuid(upload, 0)
         .. '","user_id":"owl_anon_' .. name .. '","level":"info","message":"Product viewed","source_module":'
         .. '"Shop.swift:show():42","environment":"ios","os_version":"26.1","app_version":"4.2.0","device_model":'
         .. '"iPhone17,1","is_dev":false,"custom_attributes":{"sku":"A-1001","price":"19.99","list":"Spring"}}'
   end
   return post("/v1/ingest",
      '{"bundle_id":"' .. os.getenv("BUNDLE") .. '","events":[' .. table.concat(events, ",") .. "]}")
end

function init(arguments)
   local count = tonumber(os.getenv("COUNT") or "64")
   local now = os.time() * 1000
   if kind == "file" then
      local file = io.open(os.getenv("PEOPLE"), "rb")
      for text in (file:read("*a") .. "\0"):gmatch("([^%z]+)%z") do requests[#requests + 1] = text end
      -- The threads begin at different places.
      last = number * math.floor(#requests / 2)
      return
   end
   local mine = os.getenv("PEOPLE") and people()
   for i = 1, count do
      local name = string.format("%s-%d-%d", seed or "", number, i)
      local turn = mine and math.floor(i / #mine)
      if kind == "get" then
         requests[i] = "GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
      elseif kind == "access" then
         requests[i] = "GET /v3/users/" .. mine[i % #mine + 1] .. "/entitlements HTTP/1.1\r\nHost: 127.0.0.1\r\n"
            .. "Authorization: Bearer " .. key .. (os.getenv("NONCE") and "\r\nOnym-Nonce: " .. os.getenv("NONCE") or "")
            .. "\r\n\r\n"
      elseif kind == "new" then
         requests[i] = identity_call("/v1/identify", name, "1c5e7a52-" .. name)
      elseif kind == "login" then
         requests[i] = identity_call("/v1/login", name, "1c5e7a52-" .. name)
      elseif kind == "modify" then
         requests[i] = modify(mine[i % #mine + 1], turn)
      elseif kind == "alias" then
         local pair, pairs_ = i % (#mine / 2), #mine / 2
         requests[i] = alias(mine[2 * pair + 1], mine[2 * pair + 2], now - 3600000 + math.floor(i / pairs_) * 1000)
      elseif kind == "claim" then
         requests[i] = claim(name, name)
      elseif kind == "more" then
         requests[i] = claim(name, "user-" .. i % 1000)
      elseif kind == "property" then
         requests[i] = property("user-" .. i % 1000, name)
      elseif kind == "collect" or kind == "one" then
         requests[i] = collect(string.format("%s-%d-%d", seed, number, i % 1000), i)
      elseif kind == "ingest" or kind == "bare" then
         requests[i] = upload(mine[i % #mine + 1], name, now - 60000)
      else
         requests[i] = identity_call("/v1/identify", "warm-" .. i, string.format("%s-9f1b-4c1e-%012d", seed, i))
      end
   end
end

-- DELAY milliseconds pass before each request of a connection, so that the load is less than the server could do.
if os.getenv("DELAY") then
   local milliseconds = tonumber(os.getenv("DELAY"))
   function delay() return milliseconds end
end

function request()
   last = last % #requests + 1
   return requests[last]
end

function done(summary, latency, _)
   io.write(string.format(
      "result %d %d %d %d %d\n", summary.requests, summary.duration, latency:percentile(50), latency:percentile(99),
      summary.errors.status + summary.errors.connect + summary.errors.read + summary.errors.write
         + summary.errors.timeout))
end
