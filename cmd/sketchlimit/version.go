package main

import "runtime/debug"

// version is the release that the program was installed as. Built in a checkout it is
// what go makes of the revision, v0.0.0-time-revision; where go does not look at the
// revision, as in go run, it is (devel).
func version() string {
	const devel = "(devel)"
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return devel
	}
	return info.Main.Version
}
