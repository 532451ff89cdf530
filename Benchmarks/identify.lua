-- Load for wrk: POST /v1/identify with three identities each.
--
--   KIND=warm   the same 64 people again and again, each request with an id of its own kind
--   KIND=new    people that nobody has seen; SEED tells one run's from another's
--   KIND=get    GET /healthz, for what HTTP alone costs
--
-- Every request is put together before the clock starts, so that making the load costs the same whatever is measured.

local kind, key = os.getenv("KIND"), os.getenv("WEB_KEY")
local threads = 0
local requests, last = {}, 0

function setup(thread)
   thread:set("number", threads)
   threads = threads + 1
end

local function request_for(name, request_id)
   local body = '{"client_sdk":{"platform":"ios","sdk_vendor":"mparticle","sdk_version":"9.4.0"},"context":null,'
      .. '"environment":"development","request_id":"' .. request_id .. '","request_timestamp_ms":1762457821105,'
      .. '"known_identities":{"customerid":"' .. name .. '","email":"' .. name .. '@example.com",'
      .. '"ios_idfv":"0f3c8a6e-7f0d-4a1c-' .. name .. '"}}'
   return "POST /v1/identify HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nx-mp-key: " .. key
      .. "\r\nContent-Length: " .. #body .. "\r\n\r\n" .. body
end

function init(arguments)
   local count = tonumber(os.getenv("COUNT") or "64")
   for i = 1, count do
      if kind == "get" then
         requests[i] = "GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
      elseif kind == "new" then
         local name = string.format("%s-%d-%d", os.getenv("SEED"), number, i)
         requests[i] = request_for(name, "1c5e7a52-" .. name)
      else
         requests[i] = request_for("warm-" .. i, string.format("%s-9f1b-4c1e-%012d", os.getenv("SEED"), i))
      end
   end
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
