// Package httplimit puts a limiter in front of HTTP handlers.
//
//	limit, err := httplimit.New(limiter, &httplimit.Clients{})
//	...
//	http.ListenAndServe(":8080", limit(mux))
//
// The [Key] says what is limited: the client's address ([Clients], which believes only
// the proxies that you name), a [Header], the route ([Pattern]), several of them
// ([Join]), or what a function of your own appends ([KeyFunc]).
//
// [NewAll] holds requests against several limits at once: in windows of several
// lengths, by several keys, and on requests at the same time. A [Ladder] of them limits
// the networks of an address as well as the address.
//
// [NewBudget] limits costs that show only afterwards, such as bytes of responses: a
// request holds what it may cost while it is handled, and settles what it did cost.
//
// A request that the limiter admits goes to the next handler, with the ResponseWriter
// unchanged, budgets aside. A request that it denies is answered with 429 and the time
// to wait. Both responses carry the fields RateLimit-Policy and RateLimit of
// draft-ietf-httpapi-ratelimit-headers-10, see [Fields]. If several of these
// middlewares are used one behind the other, each adds its own policy to the fields;
// give them names, see [Name].
//
// A request costs at most one allocation, and none without header fields; with a budget
// two more.
//
// Package grpclimit, a module of its own, has these middlewares in front of gRPC
// services.
package httplimit
