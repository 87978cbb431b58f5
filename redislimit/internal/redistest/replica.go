package redistest

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

// Replica is a server of a cluster that follows a master.
type Replica struct{ *Server }

// Replicas gives every master a replica, and waits until these have what the masters have
// and all servers know each other.
func (c *Cluster) Replicas(t testing.TB) (replicas []Replica) {
	t.Helper()
	all := c.Masters[:]
	for i := range c.Masters {
		s, err := c.replica(t.TempDir(), i)
		if err != nil {
			t.Fatalf("redistest: replica %d: %v", i, err)
		}
		t.Cleanup(s.Kill)
		replicas = append(replicas, Replica{s})
		all = append(all, s)
	}
	if err := acquainted(all...); err != nil {
		t.Fatal(err)
	}
	return replicas
}

func (c *Cluster) replica(dir string, i int) (*Server, error) {
	master := c.Masters[i]
	s, err := Start(dir, c.args...)
	if err != nil {
		return nil, err
	}
	var id string
	host, port, _ := strings.Cut(master.Addr, ":")
	err = master.until(func(ctx context.Context, r *redis.Client) (err error) {
		if err := r.ConfigSet(ctx, "repl-diskless-sync-delay", "0").Err(); err != nil {
			return err
		}
		id, err = r.Do(ctx, "cluster", "myid").Text()
		return err
	})
	if err == nil {
		err = s.until(func(ctx context.Context, r *redis.Client) error {
			if err := r.Do(ctx, "cluster", "meet", host, port, master.bus).Err(); err != nil {
				return err
			}
			return r.ClusterReplicate(ctx, id).Err()
		})
	}
	if err == nil {
		err = s.until(func(ctx context.Context, r *redis.Client) error {
			info, err := r.Info(ctx, "replication").Result()
			if err == nil && !strings.Contains(info, "master_link_status:up") {
				err = fmt.Errorf("redistest: replica at %s is not ready: %s", s.Addr, info)
			}
			return err
		})
	}
	if err != nil {
		s.Kill()
		return nil, err
	}
	return s, nil
}

// Promote makes the replica the master of its slots, and waits until it serves them.
func (r Replica) Promote(t testing.TB) {
	t.Helper()
	err := r.until(func(ctx context.Context, c *redis.Client) error {
		info, err := c.Info(ctx, "replication").Result()
		if err == nil && strings.Contains(info, "role:master") {
			return nil
		}
		c.Do(ctx, "cluster", "failover", "takeover")
		return fmt.Errorf("redistest: replica at %s is not promoted yet: %s, %v", r.Addr, info, err)
	})
	if err != nil {
		t.Fatal(err)
	}
}
