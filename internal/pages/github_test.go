package pages

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Each part of .ci/run has a job in the workflow, and each job a part.
func TestWorkflowRunsEachPart(t *testing.T) {
	root := os.DirFS("../..")
	gate, workflow := read(t, root, ".ci/run"), read(t, root, ".github/workflows/ci.yml")
	list := regexp.MustCompile(`(?m)^all="(.*)"$`).FindStringSubmatch(gate)
	require.NotNil(t, list)
	jobs := regexp.MustCompile(`(?m)^ +part: \[(.*)\]$`).FindStringSubmatch(workflow)
	require.NotNil(t, jobs)
	require.Equal(t, list[1], strings.Join(append([]string{"test"}, strings.Split(jobs[1], ", ")...), " "))
	require.Contains(t, workflow, "run: .ci/run test\n")
	for _, part := range strings.Fields(list[1]) {
		require.Contains(t, gate, "\nif part "+part+"; then\n")
	}
}

// The workflows run targets of the Makefile that exist.
func TestWorkflowTargetsExist(t *testing.T) {
	root := os.DirFS("../..")
	makefile := read(t, root, "Makefile")
	targets := regexp.MustCompile(`(?m)^ +target: \[(.*)\]$`).FindStringSubmatch(read(t, root, ".github/workflows/weekly.yml"))
	require.NotNil(t, targets)
	for _, target := range strings.Split(targets[1], ", ") {
		require.Contains(t, makefile, "\n"+target+":")
	}
}

// Commands are built with the Go release that SECURITY.md asks for, or a later one.
func TestCommandsNameTheToolchain(t *testing.T) {
	root := os.DirFS("../..")
	asked := regexp.MustCompile(`Build services with Go (\S+) or later`).FindStringSubmatch(read(t, root, "SECURITY.md"))
	require.NotNil(t, asked)
	for _, name := range []string{"cmd/sketchlimit/go.mod", "cmd/sketchlimitd/go.mod"} {
		require.Contains(t, read(t, root, name), "\ntoolchain go"+asked[1]+"\n", name)
	}
	require.Contains(t, read(t, root, "SECURITY.md"), "`toolchain go"+asked[1]+"`")
}
