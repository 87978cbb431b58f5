// Package rules limits by rules from files, in the format that operators know from
// envoyproxy/ratelimit:
//
//	domain: api
//	descriptors:
//	  - key: client
//	    rate_limit:
//	      unit: minute
//	      requests_per_unit: 100
//	      keys: 1000000
//	    descriptors:
//	      - key: path
//	        value: /search*
//	        rate_limit: {unit: 10s, requests_per_unit: 5}
//
// A request comes with descriptors, lists of keys and values such as (client, ann),
// (path, /search/books). Each descriptor leads through the levels of its domain:
// at each, the descriptor of the file with that key and value is taken, or else the first
// one whose value, with * for any characters, fits, or else the one that has no value.
// The rule found at the end of it applies; none does if the levels of the request
// and the file do not end together.
//
// Every rule is a [sketchlimit.Limiter]: its memory is fixed when the file is loaded,
// and counts each combination of the values that the file leaves open, for which
// it expects so many keys.
//
// # Fields
//
// Of a descriptor: key, value, rate_limit, descriptors, shadow_mode, quota_mode and
// share_threshold mean what they do there; metadata, detailed_metric and
// value_to_metric are accepted and have no effect. Of a rate_limit there are unit,
// requests_per_unit (0 blocks), unlimited, name and replaces, and beyond them:
//
//   - unit may be any duration, such as 10m or 1.5s, beside second, minute, hour, day,
//     week, month (30 days) and year (365 days);
//   - unit_multiplier, at least 1: the window is so many units;
//   - algorithm: fixed_window, which is the default and what the format has always
//     meant, sliding_window, or token_bucket;
//   - burst, of a token_bucket: how many units it holds, requests_per_unit otherwise;
//   - keys: how many combinations of open values a window has, [DefaultKeys] otherwise;
//   - false_denial_rate: of that many keys, see [sketchlimit.Config];
//   - memory: the most bytes of the rule, such as 512KiB, instead of false_denial_rate.
//
// Unknown fields, and those in a place where they would have no effect, are errors.
package rules
