package servers

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
)

// These are the programs of the reference, pinned by go.mod.
const (
	referenceService = "github.com/envoyproxy/ratelimit/src/service_cmd"
	ReferenceClient  = "github.com/envoyproxy/ratelimit/src/client_cmd"
	ReferenceChecker = "github.com/envoyproxy/ratelimit/src/config_check_cmd"
)

var tools sync.Map // path of a package -> func() (string, error)

// Tool builds one of the reference's programs, which Go keeps in its cache, and returns
// the path of the file.
func Tool(pkg string) (string, error) {
	build, _ := tools.LoadOrStore(pkg, sync.OnceValues(func() (string, error) {
		return output(exec.Command("go", "tool", "-n", pkg))
	}))
	return build.(func() (string, error))()
}

// output runs a command in silence and returns what it prints.
func output(cmd *exec.Cmd) (string, error) {
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w: %s", strings.Join(cmd.Args, " "), err, errs.String())
	}
	return strings.TrimSpace(string(out)), nil
}

// moduleDir is the folder of this module.
var moduleDir = sync.OnceValues(func() (string, error) {
	file, err := output(exec.Command("go", "env", "GOMOD"))
	return filepath.Dir(file), err
})

// sketchlimitd builds our service and returns the path of the file. It is built in its
// own module, because the services do not use the same versions of gRPC and others.
var sketchlimitd = sync.OnceValues(func() (string, error) {
	here, err := moduleDir()
	if err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp("", "sketchlimitd")
	if err != nil {
		return "", err
	}
	built = dir
	file := filepath.Join(dir, "sketchlimitd")
	build := exec.Command("go", "build", "-o", file, ".")
	build.Dir = filepath.Join(here, "..", "..", "cmd", "sketchlimitd")
	_, err = output(build)
	return file, err
})

var built string // the folder of what was built, or nothing

// Clean removes what was built outside of Go's cache. Nothing can be started after it.
func Clean() {
	if built != "" {
		os.RemoveAll(built)
	}
}
