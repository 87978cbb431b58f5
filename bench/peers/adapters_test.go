package main

import (
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// each runs f with a limiter of 100 per hour of every implementation.
func each(t *testing.T, f func(*testing.T, limiter)) {
	for _, i := range implementations {
		t.Run(i.name, func(t *testing.T) {
			l, err := i.build(settings{limit: 100, window: time.Hour, size: size{keys: 1000, memory: 1 << 20}})
			require.NoError(t, err)
			f(t, l)
			if c, ok := l.(io.Closer); ok {
				require.NoError(t, c.Close())
			}
		})
	}
}

func TestAdmitsTheFirst100OfEachKey(t *testing.T) {
	each(t, func(t *testing.T, l limiter) {
		keys := []string{"a", "b", "192.0.2.1"}
		for n := range 100 {
			for _, key := range keys {
				require.True(t, l.Allow(key), "request %d of %s", n+1, key)
			}
		}
		for n := range 20 {
			for _, key := range keys {
				require.False(t, l.Allow(key), "request %d of %s", n+101, key)
			}
		}
		assert.True(t, l.Allow("c"))
	})
}

func TestAdmits100FromSeveralGoroutines(t *testing.T) {
	each(t, func(t *testing.T, l limiter) {
		var admitted [10]atomic.Int64
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for range 60 {
					for k := range admitted {
						if l.Allow(fmt.Sprint("key ", k)) {
							admitted[k].Add(1)
						}
					}
				}
			})
		}
		wg.Wait()
		for k := range admitted {
			assert.EqualValues(t, 100, admitted[k].Load(), "key %d", k)
		}
	})
}

func TestAdmitsManyOfAHotKey(t *testing.T) {
	for _, i := range implementations {
		t.Run(i.name, func(t *testing.T) {
			l, err := i.build(settings{limit: hotLimit, window: time.Hour, size: size{keys: 1000, memory: 1 << 20}})
			require.NoError(t, err)
			for n := range hotBatches * batchKeys {
				require.True(t, l.Allow("hot"), "request %d", n+1)
			}
		})
	}
}

func TestShortVersion(t *testing.T) {
	assert.Equal(t, "v1.2.3", shortVersion("v1.2.3"))
	assert.Equal(t, "v1.2.3-rc.1", shortVersion("v1.2.3-rc.1"))
	assert.Equal(t, "5b3723c", shortVersion("v0.0.0-20251001182300-5b3723cc64ae"))
}
