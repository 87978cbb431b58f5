package redistest

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/redis/go-redis/v9"
)

const slots = 16384

// Cluster is a Redis Cluster of three masters, each with a third of the slots, without
// replicas.
type Cluster struct {
	Masters [3]*Server
	args    []string // of every server
}

// StartCluster starts a cluster whose servers keep their files below dir, and waits until
// every master knows that all slots are served. Arguments are those of [Start].
func StartCluster(dir string, args ...string) (*Cluster, error) {
	c := &Cluster{args: append([]string{"--cluster-enabled", "yes"}, args...)}
	if err := c.start(dir); err != nil {
		c.Kill()
		return nil, err
	}
	return c, nil
}

func (c *Cluster) start(dir string) error {
	for i := range c.Masters {
		home := filepath.Join(dir, fmt.Sprint("master", i))
		if err := os.Mkdir(home, 0o700); err != nil {
			return fmt.Errorf("redistest: %w", err)
		}
		var err error
		if c.Masters[i], err = Start(home, c.args...); err != nil {
			return err
		}
	}
	return c.join()
}

// join hands out the slots and makes the masters known to each other.
func (c *Cluster) join() error {
	host, port, err := net.SplitHostPort(c.Masters[0].Addr)
	if err != nil {
		return err
	}
	for i, s := range c.Masters {
		first, last := i*slots/len(c.Masters), (i+1)*slots/len(c.Masters)-1
		if err := s.until(func(ctx context.Context, r *redis.Client) error {
			if i > 0 {
				if err := r.Do(ctx, "cluster", "meet", host, port, c.Masters[0].bus).Err(); err != nil {
					return err
				}
			}
			err := r.ClusterAddSlotsRange(ctx, first, last).Err()
			if redis.HasErrorPrefix(err, fmt.Sprintf("ERR Slot %d is already busy", first)) {
				return nil // since the last try, whose answer was late
			}
			return err
		}); err != nil {
			return fmt.Errorf("redistest: slots of %s: %w", s.Addr, err)
		}
	}
	return acquainted(c.Masters[:]...)
}

// acquainted waits until every server knows all others, of whom it may have heard by
// gossip alone, and sees all slots served. A server that is not known yet is not believed
// when it takes over slots.
func acquainted(servers ...*Server) error {
	for _, s := range servers {
		if err := s.until(func(ctx context.Context, r *redis.Client) error {
			nodes, err := r.ClusterNodes(ctx).Result()
			if err != nil {
				return err
			}
			info, err := r.ClusterInfo(ctx).Result()
			if err != nil {
				return err
			}
			known := strings.Count(nodes, " connected") - strings.Count(nodes, "handshake")
			if known != len(servers) || !strings.Contains(info, "cluster_state:ok") {
				return fmt.Errorf("redistest: cluster at %s is not ready: %s%s", s.Addr, info, nodes)
			}
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}

// Addrs returns the masters' addresses.
func (c *Cluster) Addrs() (addrs []string) {
	for _, s := range c.Masters {
		addrs = append(addrs, s.Addr)
	}
	return addrs
}

// Kill ends all masters at once.
func (c *Cluster) Kill() {
	for _, s := range c.Masters {
		if s != nil {
			s.Kill()
		}
	}
}
