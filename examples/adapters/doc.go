// Package adapters shows package httplimit behind the routers chi, gorilla and echo, and in front of Connect services.
// For gin, and for the limiters that frameworks have themselves, there are modules in frameworks/.
// It has no code of its own but examples, which are run: copy what you need.
package adapters
