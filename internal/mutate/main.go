// Command mutate breaks the code that decides, one way after another, each in a copy of the
// repository, and shows that the tests fail for each: a way that they do not notice is a
// test that is missing.
//
//	go run ./internal/mutate [-run regexp]
//
// It runs the tests of the root, of internal/engine and of what lies below, of budget, tune and rules, without the race detector:
// first the one that has noticed the mutant before, and if that passes all others, those that take long last. A mutant
// that does not compile, or whose place is not found in the source exactly once, is an error and no proof.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// timeout is what the tests of one mutant may take. One that hangs is dead as well.
const timeout = 20 * time.Minute

// slow are the root's tests that take seconds; they are left to mutants that survive the others.
const slow = "SizedByKeys|LowestLimitIsSizedFor|StatesItsMemory|BrokenVariants|LiveRate|ReadmeTable|SteadyState|UnderConcurrency"

// foreign are the root's tests of what does not decide.
const foreign = "Requirements|Example"

func main() {
	only := flag.String("run", "", "only mutants whose names match")
	flag.Parse()
	pattern, err := regexp.Compile(*only)
	if err == nil {
		err = run(pattern)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		os.Exit(1)
	}
}

func run(only *regexp.Regexp) error {
	dir, err := os.MkdirTemp("", "mutate")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := copyTree(dir); err != nil {
		return err
	}
	if killer, err := killedBy(dir, ""); err != nil || killer != "" {
		return errors.Join(fmt.Errorf("the code as it is: noticed by %q", killer), err)
	}
	fmt.Println("| what is broken | where | noticed by |\n|---|---|---|")
	var failed []error
	for _, m := range slices.Concat(mutants, ofRules, ofServers) {
		if !only.MatchString(m.name) {
			continue
		}
		killer, err := m.try(dir)
		switch {
		case err != nil:
			failed = append(failed, fmt.Errorf("%s: %w", m.name, err))
		case killer == "":
			failed = append(failed, fmt.Errorf("%s: the tests pass", m.name))
			killer = "**nobody**"
		}
		fmt.Printf("| %s | `%s` | %s |\n", m.name, m.file, killer)
	}
	return errors.Join(failed...)
}

// copyTree copies what git knows of the root's module.
func copyTree(dir string) error {
	names, err := exec.Command("git", "ls-files", "-z").Output()
	if err != nil {
		return fmt.Errorf("git ls-files: %w", err)
	}
	for name := range strings.SplitSeq(strings.TrimSuffix(string(names), "\x00"), "\x00") {
		content, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		to := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(to), 0o755), os.WriteFile(to, content, 0o644)); err != nil {
			return err
		}
	}
	return nil
}

// mutant is one way to break a file: a text that is in it once becomes another. A test, with its folder before it unless
// that is the root, is known to notice.
type mutant struct{ name, file, from, to, test string }

// try returns the first test that notices the mutant, "" if none does.
func (m *mutant) try(dir string) (killer string, err error) {
	name := filepath.Join(dir, m.file)
	sound, err := os.ReadFile(name)
	if err != nil {
		return "", err
	}
	if n := bytes.Count(sound, []byte(m.from)); n != 1 {
		return "", fmt.Errorf("%q is in %s %d times, must be once", m.from, m.file, n)
	}
	broken := bytes.Replace(sound, []byte(m.from), []byte(m.to), 1)
	if err := os.WriteFile(name, broken, 0o644); err != nil {
		return "", err
	}
	killer, err = killedBy(dir, m.test)
	return killer, errors.Join(err, os.WriteFile(name, sound, 0o644))
}

// killedBy returns the first test that fails in the tree, "" if all pass. It runs first, "" if there is none, then all
// others of the packages that decide, and last what takes long.
func killedBy(dir, first string) (string, error) {
	var runs [][]string
	if first != "" {
		folder, name := filepath.Split(strings.Replace(first, ".Test", "/Test", 1))
		runs = append(runs, []string{"-C", "./" + folder, "-run", "^" + name + "$", "."}) // also of another module
	}
	runs = append(runs,
		[]string{"./internal/engine", "./bloom", "./cms", "./rotating"},
		[]string{"-skip", slow + "|" + foreign, "."},
		[]string{"-run", slow, "."},
		[]string{"./budget"},
		[]string{"./tune"},
		[]string{"-C", "rules", "."})
	for _, arguments := range runs {
		ctx, cancel := context.WithTimeout(context.Background(), timeout)
		test := exec.CommandContext(ctx, "go", slices.Concat([]string{"test"}, arguments, []string{"-vet=off", "-failfast"})...)
		test.Dir = dir
		out, err := test.CombinedOutput()
		hangs := ctx.Err() != nil
		cancel()
		switch {
		case hangs:
			return "tests that do not end", nil
		case err != nil:
			return verdict(out)
		case bytes.Contains(out, []byte("[no tests to run]")):
			return "", fmt.Errorf("there is no %s", first)
		}
	}
	return "", nil
}

var failure = regexp.MustCompile(`(?m)^\s*--- FAIL: (\w+)|^(panic: .*|fatal error: .*)$`)

// verdict finds what failed in the output of go test.
func verdict(out []byte) (string, error) {
	m := failure.FindSubmatch(out)
	switch {
	case m == nil:
		return "", fmt.Errorf("go test: %s", out)
	case len(m[1]) > 0:
		return "`" + string(m[1]) + "`", nil
	}
	return string(m[2]), nil
}
