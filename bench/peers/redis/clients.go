package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strconv"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
)

// slidingScript returns the script of a Strict with sliding windows of a minute and a
// limit of 100.
func slidingScript() (string, error) {
	text := `local limit, window, tick, ttl, length, far = 100, 60000000, 1, 120002, 60000000, 1
local kept, columns, cell, size, read, write = 2, 32, 1, 16244, string.byte, string.char
`
	for _, file := range []string{"../../../redislimit/clock.lua", "../../../redislimit/window.lua"} {
		lua, err := os.ReadFile(file)
		if err != nil {
			return "", err
		}
		text += string(lua)
	}
	return text, nil
}

// throughClients sends the sliding window's script, one and the same with the same
// arguments, in several ways.
func throughClients(w io.Writer, addr string) error {
	text, err := slidingScript()
	if err != nil {
		return err
	}
	shard := func(key int) string { return fmt.Sprintf("{%d}clients", key%253) }
	offset := func(key int) int { return key % 62 * 262 }
	places := func(key int) string {
		b := make([]byte, 8)
		for i := range b {
			b[i] = byte(key>>i*7) & 31
		}
		return string(b)
	}
	script := redis.NewScript(text)
	plain := redis.NewClient(&redis.Options{Addr: addr})
	if err := script.Load(context.Background(), plain).Err(); err != nil {
		return err
	}
	command := func(ctx context.Context, key int) *redis.IntSliceCmd {
		return redis.NewIntSliceCmd(ctx, "evalsha", script.Hash(), 1, shard(key), offset(key), places(key), 1, "")
	}
	all := []contender{{"go-redis, its pool", func(ctx context.Context, key int) (bool, error) {
		cmd := command(ctx, key)
		return true, plain.Process(ctx, cmd)
	}}}
	for _, how := range []struct {
		name   string
		duplex bool
	}{{"go-redis, autopipelined", false}, {"go-redis, autopipelined, full duplex (chosen)", true}} {
		p, err := redis.NewClient(&redis.Options{Addr: addr}).AsyncAutoPipelineWithOptions(&redis.AutoPipelineOptions{FullDuplex: how.duplex})
		if err != nil {
			return err
		}
		all = append(all, contender{how.name, func(ctx context.Context, key int) (bool, error) {
			return true, p.Submit(ctx, command(ctx, key)).WaitContext(ctx)
		}})
	}
	other, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{addr}, DisableCache: true})
	if err != nil {
		return err
	}
	lua2 := rueidis.NewLuaScript(text)
	all = append(all, contender{"rueidis", func(ctx context.Context, key int) (bool, error) {
		return true, lua2.Exec(ctx, other, []string{shard(key)}, []string{strconv.Itoa(offset(key)), places(key), "1", ""}).Error()
	}})
	return compare(w, addr, all)
}
