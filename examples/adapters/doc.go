// Package adapters shows package httplimit behind the routers chi, gorilla, gin and echo, and in
// front of Connect services.
// It has no code of its own but examples, which are run: copy what you need.
package adapters
