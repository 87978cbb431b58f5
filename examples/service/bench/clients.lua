-- A request of one of 1,048,576 clients, as the proxy in front of the service would send it.
local networks, hosts = {}, {}
for i = 0, 4095 do
	networks[i] = "GET /items/1 HTTP/1.1\r\nHost: service\r\nX-Forwarded-For: 11." .. math.floor(i / 256) .. "." .. i % 256 .. "."
end
for i = 0, 255 do
	hosts[i] = i .. "\r\n\r\n"
end

function init()
	math.randomseed(os.time())
end

function request()
	return networks[math.random(0, 4095)] .. hosts[math.random(0, 255)]
end
