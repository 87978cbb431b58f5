package rules_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/rules"
)

// Whenever rules are read again, with other limits and sizes, wrong or not: a key never
// gets more in a window than the present limit leaves it, and all of that while there
// are few keys.
func FuzzReload(f *testing.F) {
	f.Add([]byte{10, 0x41, 0x41, 0x82, 0x41, 0x41, 0xc3, 0x01, 0x41})
	f.Add([]byte{5, 0x45, 0x8f, 0x49, 0xc1, 0x81, 0x44, 0xff, 0x44, 0x80, 0x41})
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 200 {
			return
		}
		text := func(b byte) rules.File {
			limit, rest := int(b&7)*5, ""
			if b&8 != 0 {
				rest = ", keys: 1000"
			}
			if b&16 != 0 {
				rest += ", overload: wrong"
			}
			return rules.File{Name: "f", Data: fmt.Appendf(nil, "domain: api\ndescriptors: [{key: user, rate_limit: {unit: minute, requests_per_unit: %d%s}}]", limit, rest)}
		}
		now, used, limit := time.Unix(0, 0), map[byte]int{}, 10
		l, err := rules.Options{
			MaxMemoryBytes: 16 << 20, SharedBytes: 64 << 10, Hash: sketchlimit.MapHash(), Clock: func() time.Time { return now },
		}.New(text(2))
		require.NoError(t, err)
		for _, b := range data {
			switch b >> 6 {
			case 0: // time goes on
				before := now.Unix() / 60
				now = now.Add(time.Duration(b) * time.Second)
				if now.Unix()/60 != before {
					clear(used)
				}
			case 1: // a request
				user, n := b>>4&3, int(b&15)
				a := l.Do("api", ask(n, fmt.Sprint("user=", user)))
				require.Equal(t, used[user]+max(n, 1) <= limit, a.Admitted)
				if a.Admitted {
					used[user] += n
				}
			case 2: // the files are read
				if err := l.Replace(text(b)); b&16 != 0 {
					require.Error(t, err)
				} else {
					require.NoError(t, err)
					limit = int(b&7) * 5
				}
			default:
				require.NoError(t, l.Adapt())
			}
		}
	})
}
