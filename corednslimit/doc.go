// Package corednslimit is the CoreDNS plugin sketch_rrl: response rate limiting with
// the block and the rules of the plugin rrl, in fixed memory. It counts a flood from
// millions of prefixes without forgetting any of them.
//
// To build a CoreDNS with it, import the package for its side effect: it registers the
// plugin, in front of all plugins that answer.
//
//	import (
//		_ "github.com/coredns/coredns/core/plugin"
//		"github.com/coredns/coredns/coremain"
//		_ "github.com/sketchlimit/sketchlimit/corednslimit"
//	)
//
//	func main() { coremain.Run() }
package corednslimit
