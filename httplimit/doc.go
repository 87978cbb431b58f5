// Package httplimit puts a limiter in front of HTTP handlers.
//
//	limit, err := httplimit.New(limiter, &httplimit.Clients{})
//	...
//	http.ListenAndServe(":8080", limit(mux))
//
// What is limited is a required argument, a [Key]: the client's address ([Clients],
// which believes the proxies it is told of and nobody else), a [Header], the route
// ([Pattern]), several of them ([Join]), or a function of your own ([KeyFunc]).
//
// A request that the limiter admits goes to the handler behind, with the
// ResponseWriter as it came; one that it does not is answered with 429 and the time
// to wait. Both carry the fields RateLimit-Policy and RateLimit of
// draft-ietf-httpapi-ratelimit-headers-10, see [Fields]. Several of these
// middlewares, one behind the other, each add theirs; give them names, see [Name].
//
// A request costs no allocation, and one at most with header fields.
package httplimit
