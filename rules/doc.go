// Package rules limits requests by rules from files, in the format of
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
// A request comes with descriptors. Each is a list of entries, keys with values, such
// as (client, ann), (path, /search/books). Its entries lead through the levels of the
// domain. At each level an entry chooses a descriptor of the file: the one with its key
// and value; otherwise the first one with a * in its key or value that fits, where *
// stands for any characters; otherwise the one with its key and no value. The rule of
// the descriptor that the last entry has chosen applies. If an entry finds none, or the
// last one has no rule, no rule applies.
//
// Every rule is a [sketchlimit.Limiter], whose memory is fixed when the file is loaded.
// It counts each combination of the values that the file leaves open as a key of its
// own. Rules that state no size may share memory instead, see Options.SharedBytes.
//
// Put [Rules.HTTP] in front of handlers, or ask [Rules.Do]. [Rules.Reload] reads the
// files again, and what was counted stays counted. [Options] has what a service that
// stands in for envoyproxy/ratelimit needs.
//
// # Fields
//
// Of a descriptor: key, value, rate_limit, descriptors, shadow_mode, quota_mode and
// share_threshold mean what they mean in envoyproxy/ratelimit; metadata,
// detailed_metric and value_to_metric are for services that answer and count as that
// does: see Rule.Metadata and Rule.StatsName. An addition is prefixes, such as {ipv4:
// 24, ipv6: 48}, of a descriptor that leaves its value open: the value is an address,
// counted by its prefix of so many bits. Values that are no addresses share one
// counter. Of a rate_limit: unit, requests_per_unit (0 blocks), unlimited, name and
// replaces, and these additions:
//
//   - unit may be any duration, such as 10m or 1.5s, beside second, minute, hour, day,
//     week, month (30 days) and year (365 days);
//   - unit_multiplier, at least 1: the window is so many units;
//   - algorithm: fixed_window, which is the default and the algorithm of
//     envoyproxy/ratelimit, sliding_window, or token_bucket;
//   - burst, of a token_bucket: how many units it holds; requests_per_unit if not
//     given;
//   - keys: how many combinations of open values a window has; [DefaultKeys] if not
//     given;
//   - units_per_key and headroom: what keys use in a window, and the multiple of that
//     traffic that may come;
//   - false_denial_rate: the rate for that many keys, see [sketchlimit.Config];
//   - memory: the most bytes of the rule, such as 512KiB, in place of these;
//   - overload: deny (the default) or deny_proven, what the rule does when more comes, see
//     [sketchlimit.Overload].
//
// Unknown fields are errors, and so are fields in a place where they would have no
// effect.
package rules
