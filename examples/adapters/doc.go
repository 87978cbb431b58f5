// Package adapters shows package httplimit behind the routers chi, gorilla and echo 4,
// and in front of Connect services, and a limiter behind fiber 2. For gin, and for the
// limiters that frameworks have themselves, there are modules in contrib/. It has no
// code of its own but examples, which are run: copy what you need.
package adapters
