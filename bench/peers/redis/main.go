// Command redis measures redislimit beside redis_rate and with other clients, on a
// redis-server of its own on the loopback, and writes the tables of
// notes/tables/redis.md.
//
//	go run -C bench/peers/redis . [-write ../../../notes/tables/redis.md] [throughput] [clients] [memory] [accuracy] [processes] [fleet]
package main

import (
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/sketchlimit/sketchlimit/bench/peers/internal/redisserver"
)

// sections are what is measured, in the order of notes/tables/redis.md.
var sections = []struct {
	name    string
	measure func(w io.Writer, addr string) error
}{
	{"throughput", throughput},
	{"clients", throughClients},
	{"memory", memory},
	{"accuracy", accuracies},
	{"processes", processes},
	{"fleet", fleet},
}

// workers are what other processes do for a section.
var workers = map[string]func(addr string) error{"processes": work, "fleet": fleetWork}

func main() {
	log.SetFlags(0)
	file := flag.String("write", "", "file whose sections are replaced")
	worker := flag.String("worker", "", "be one of the processes of this section")
	addr := flag.String("addr", "", "of the worker's server")
	flag.Parse()
	if work := workers[*worker]; work != nil {
		if err := work(*addr); err != nil {
			log.Fatal(err)
		}
		return
	}
	for _, s := range sections {
		if flag.NArg() > 0 && !slices.Contains(flag.Args(), s.name) {
			continue
		}
		if err := section(s.name, s.measure, *file); err != nil {
			log.Fatal(err)
		}
	}
}

// section measures on a new server, prints what came out, and writes it to the file.
func section(name string, measure func(io.Writer, string) error, file string) error {
	dir, err := os.MkdirTemp("", "redislimit")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	addr, stop, err := redisserver.Start(dir)
	if err != nil {
		return err
	}
	defer stop()
	var text strings.Builder
	if err := measure(io.MultiWriter(os.Stdout, &text), addr); err != nil || file == "" {
		return err
	}
	old, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	place := regexp.MustCompile(fmt.Sprintf("(?s)<!-- %s -->\n.*<!-- end of %s -->", name, name))
	if !place.Match(old) {
		return fmt.Errorf("no section %s in %s", name, file)
	}
	written := place.ReplaceAllLiteral(old, fmt.Appendf(nil, "<!-- %s -->\n%s<!-- end of %s -->", name, text.String(), name))
	return os.WriteFile(file, written, 0o644)
}
