package caddylimit

import (
	"fmt"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/stretchr/testify/require"
)

// While the servers of several configs are asked at the same time, they admit the limit
// together, and not a unit more or less. Each config has another size, so another
// limiter.
func TestExactOverReloads(t *testing.T) {
	const events, callers, configs = 40_000, 4, 4
	setTime(t, minute)
	for turn := range 3 {
		var handlers [configs]*Handler
		var serving atomic.Int64
		config := func(i int) *Handler {
			return provisioned(t, &Handler{Zones: map[string]*Zone{
				"all":  {Key: "all", MaxEvents: events, Window: caddy.Duration(time.Hour), Keys: 100 + i},
				"each": {Key: fmt.Sprint("turn", turn), MaxEvents: 10 * events, Window: caddy.Duration(time.Hour), Keys: 100 + i},
			}})
		}
		handlers[0] = config(0)
		serving.Store(1)
		var all sync.WaitGroup
		var admitted atomic.Int64
		for caller := range callers {
			all.Go(func() {
				r, _ := request()
				w := httptest.NewRecorder()
				for i := range 2 * events / callers {
					if handlers[(i+caller)%int(serving.Load())].ServeHTTP(w, r, nothing{}) == nil {
						admitted.Add(1)
					}
				}
			})
		}
		for i := 1; i < configs; i++ {
			for admitted.Load() < int64(i*events/2/configs) {
				time.Sleep(10 * time.Microsecond)
			}
			handlers[i] = config(i)
			serving.Add(1)
		}
		all.Wait()
		require.EqualValues(t, events, admitted.Load())
		for _, h := range handlers {
			require.NoError(t, h.Cleanup())
		}
	}
}
