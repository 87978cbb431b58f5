package main

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/promlimit"
)

// wave returns how many keys there are in a second: few, many, few, by the same factor
// more from each second to the next.
func wave(second, keys int) int64 {
	phase := math.Abs(float64(second%cycle)/cycle*2 - 1) // 1 … 0 … 1
	return int64(float64(keys) * math.Pow(ratio, -phase))
}

// load is goroutines that take decisions at full speed, as far as keys are not too busy.
type load struct {
	keys      atomic.Int64
	budget    atomic.Int64 // decisions that are left in this tick
	decisions atomic.Int64
	stopping  atomic.Bool
	wg        sync.WaitGroup
}

func startLoad(l *sketchlimit.Limiter, j *judge, keys int) *load {
	o := new(load)
	o.keys.Store(wave(0, keys))
	o.wg.Go(o.pace)
	for g := range runtime.GOMAXPROCS(0) {
		o.wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(g), 1))
			var key [8]byte
			for !o.stopping.Load() {
				if o.budget.Add(-65) < 0 {
					time.Sleep(time.Millisecond)
					continue
				}
				n := uint64(o.keys.Load())
				for range 64 {
					binary.LittleEndian.PutUint64(key[:], r.Uint64N(n))
					l.Do(sketchlimit.Request{Bytes: key[:]})
				}
				j.request(l, r)
				o.decisions.Add(65)
			}
		})
	}
	return o
}

// pace hands out budgets evenly: a limiter that grows follows a load that does, not
// bursts.
func (o *load) pace() {
	const tick = 10 * time.Millisecond
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for !o.stopping.Load() {
		o.budget.Store(busy * o.keys.Load() * int64(tick) / int64(time.Second))
		<-ticker.C
	}
}

func (o *load) stop() {
	o.stopping.Store(true)
	o.wg.Wait()
}

// scraper is a server of metrics and its client.
type scraper struct {
	server *http.Server
	client *http.Client
	url    string
}

func newScraper(l *sketchlimit.Limiter) (*scraper, error) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(promlimit.New(func(yield func(string, *sketchlimit.Limiter) bool) { yield("soak", l) }))
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &scraper{
		server: &http.Server{Handler: promhttp.HandlerFor(registry, promhttp.HandlerOpts{})},
		client: &http.Client{Transport: new(http.Transport)},
		url:    "http://" + listener.Addr().String(),
	}
	go s.server.Serve(listener)
	return s, nil
}

func (s *scraper) scrape() error {
	response, err := s.client.Get(s.url)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err == nil && !strings.Contains(string(body), `sketchlimit_admitted_units_total{limiter="soak"}`) {
		err = fmt.Errorf("%s without metrics: %s", response.Status, body)
	}
	return err
}

func (s *scraper) close() error {
	s.client.CloseIdleConnections()
	return s.server.Close()
}
