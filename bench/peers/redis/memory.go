package main

import (
	"context"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// memory prints what the server's memory grows by when a million keys come once. The
// window is a day: redis_rate lets a key go when its bucket is full again, and so would
// have lost the first ones of a minute before the last ones come.
func memory(w io.Writer, addr string) error {
	const window = 24 * time.Hour
	all := []contender{rate(addr, window)}
	for _, limit := range []int{100, 1000, 10_000} {
		s, err := stricts(addr, aMillion, limit, window)
		if err != nil {
			return err
		}
		for _, c := range s {
			c.name = fmt.Sprintf("%s, %d a day", c.name, limit)
			all = append(all, c)
		}
	}
	server := redis.NewClient(&redis.Options{Addr: addr})
	fmt.Fprintln(w, "| | used_memory | a key | less than redis_rate |\n|---|---|---|---|")
	most := 0.
	for _, c := range all {
		if err := server.FlushAll(context.Background()).Err(); err != nil {
			return err
		}
		if _, err := c.take(context.Background(), 0); err != nil { // connects, loads the script
			return err
		}
		before, err := used(server)
		if err != nil {
			return err
		}
		if err := each(c, aMillion); err != nil {
			return err
		}
		after, err := used(server)
		if err != nil {
			return err
		}
		grown := after - before
		most = max(most, grown)
		fmt.Fprintf(w, "| %s | %.1f MB | %.1f bytes | 1 / %.0f |\n", c.name, grown/1e6, grown/aMillion, most/grown)
	}
	return nil
}

// each takes one unit of every key.
func each(c contender, keys int) error {
	const callers = 128
	errs := make(chan error, callers)
	var all sync.WaitGroup
	for i := range callers {
		all.Go(func() {
			for key := 1 + i; key <= keys; key += callers {
				if _, err := c.take(context.Background(), key); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	all.Wait()
	close(errs)
	return <-errs
}

// used returns the server's memory but for what its connections take, which comes and
// goes.
func used(server *redis.Client) (float64, error) {
	info, err := server.Info(context.Background(), "memory").Result()
	if err != nil {
		return 0, err
	}
	all, err := field(info, "used_memory")
	if err != nil {
		return 0, err
	}
	connections, err := field(info, "mem_clients_normal")
	return all - connections, err
}

func field(info, name string) (float64, error) {
	found := regexp.MustCompile(`(?m)^` + name + `:(\d+)`).FindStringSubmatch(info)
	if found == nil {
		return 0, fmt.Errorf("no %s in %q", name, info)
	}
	return strconv.ParseFloat(found[1], 64)
}
