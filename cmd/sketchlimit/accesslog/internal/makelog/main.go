// Command makelog writes a made-up access log in the combined format: clients by Zipf's
// law, one in a hundred thousand of which floods, over a day with a quiet night.
//
//	go run -C cmd/sketchlimit/accesslog/internal/makelog . -lines 1e7 > access.log
package main

import (
	"bufio"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"time"
)

func main() {
	lines := flag.Float64("lines", 1e6, "how many")
	keys := flag.Uint64("keys", 1_000_000, "clients at most")
	flag.Parse()
	r := rand.New(rand.NewPCG(1, 2))
	clients := rand.NewZipf(r, 1.1, 50, *keys-1)
	start := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	out := bufio.NewWriterSize(os.Stdout, 1<<20)
	for i := range int(*lines) {
		day := float64(i) / *lines
		at := start.Add(time.Duration((day - math.Sin(2*math.Pi*day)/20) * float64(24*time.Hour)))
		client := clients.Uint64()
		if r.IntN(20) == 0 {
			client = *keys + r.Uint64N(max(*keys/100_000, 1)) // floods
		}
		fmt.Fprintf(out, "10.%d.%d.%d - - [%s] \"GET /item/%d?from=search HTTP/1.1\" 200 %d \"https://shop.example/\" "+
			"\"Mozilla/5.0 (X11; Linux x86_64; rv:130.0) Gecko/20100101 Firefox/130.0\"\n", client>>16&255, client>>8&255, client&255,
			at.Format("02/Jan/2006:15:04:05 -0700"), r.IntN(1e6), r.IntN(1e5))
	}
	if err := out.Flush(); err != nil {
		fmt.Fprintln(os.Stderr, "makelog:", err)
		os.Exit(1)
	}
}
