// Command adapters gets module httplimit/adapters by its version. That has examples only.
package main

import _ "github.com/sketchlimit/sketchlimit/httplimit/adapters"

func main() {}
