// Package basetree checks out another commit of the repository for a program that
// compares itself with what it was there.
package basetree

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// With calls use with a temporary worktree of a commit, in which the program in a
// folder, relative to the root of the repository, is the one of the working tree. It is
// to be called in that root. The worktree is removed afterwards.
func With(commit, program string, use func(tree string) error) (err error) {
	dir, err := os.MkdirTemp("", "base")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	tree := filepath.Join(dir, "tree")
	if _, err := Run(nil, "git", "worktree", "add", "--detach", tree, commit); err != nil {
		return err
	}
	defer func() {
		_, e := Run(nil, "git", "worktree", "remove", "--force", tree)
		err = errors.Join(err, e)
	}()
	for _, folder := range []string{program, filepath.Join("bench", "internal")} {
		there := filepath.Join(tree, folder)
		if err := errors.Join(os.RemoveAll(there), os.CopyFS(there, os.DirFS(folder))); err != nil {
			return err
		}
	}
	return use(tree)
}

// Run returns what a command prints, with more variables in its environment. Its error
// holds what the command complains about.
func Run(env []string, name string, arguments ...string) (string, error) {
	command := exec.Command(name, arguments...)
	command.Env = append(os.Environ(), env...)
	out, err := command.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		err = fmt.Errorf("%w\n%s", err, bytes.TrimSpace(exit.Stderr))
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w", name, err)
	}
	return string(out), nil
}
