#!/usr/bin/env bash
# Starts a Redis and two nodes, asks them in turns as one client, and stops all three.
# Ten requests are admitted in all, whichever node they come to.
set -euo pipefail
cd "$(dirname "$0")"

work=$(mktemp -d)
started=()
trap 'kill "${started[@]}" 2>/dev/null || true; wait; rm -r "$work"' EXIT

go build -o "$work/node" .
redis-server --port 16379 --bind 127.0.0.1 --save "" --dir "$work" >"$work/redis.log" &
started+=($!)
for port in 18081 18082; do
	"$work/node" -address "127.0.0.1:$port" -redis 127.0.0.1:16379 &
	started+=($!)
done
for port in 18081 18082; do
	curl --silent --retry 20 --retry-connrefused --retry-delay 1 "http://127.0.0.1:$port/?client=warm-up" >/dev/null
done
for i in $(seq 6); do
	for port in 18081 18082; do
		printf 'node %s: ' "$port"
		curl --silent "http://127.0.0.1:$port/?client=alice"
	done
done
