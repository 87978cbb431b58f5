package grpclimit_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sketchlimit/sketchlimit/internal/kinds"
)

// Each kind of limiter goes into the interceptors.
func TestEachKind(t *testing.T) {
	for name, k := range kinds.Each() {
		t.Run(name, func(t *testing.T) {
			c := serve(t, &service{}, true, both(limited(t, k.Member, byUser)))
			n := 0
			for ; n < 100; n++ {
				if _, _, err := call(user(t, "ann"), c); err != nil {
					require.Equal(t, codes.ResourceExhausted, status.Code(err))
					break
				}
			}
			require.Equal(t, k.Limit, n)
		})
	}
}
