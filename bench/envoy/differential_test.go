package main

import (
	"cmp"
	"flag"
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/sketchlimit/sketchlimit/bench/envoy/internal/servers"
)

var (
	requests = flag.Int("requests", 5000, "random requests of the differential test, in all")
	files    = flag.Int("files", 4, "random rule files that they meet")
	seed     = flag.Uint64("seed", 1, "of both")
)

// modes are settings under which the services are compared, and their manners then.
var modes = []struct {
	name          string
	settings      []string
	theirs, ours  counting
	shadow, quota bool
}{
	{name: "refused uncounted", settings: []string{stop + "=true"}, theirs: countUntilOver, ours: countTogether},
	{name: "refused counted", settings: []string{stop + "=false"}, theirs: countAll, ours: countUpToLimits},
	{name: "shadow", settings: []string{stop + "=false", "SHADOW_MODE=true"}, shadow: true, theirs: countAll, ours: countUpToLimits},
	{name: "quota", settings: []string{stop + "=true", "QUOTA_MODE=true"}, quota: true, theirs: countUntilOver, ours: countTogether},
}

const stop = "STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT"

// TestDifferential sends the same random requests under random rules to the reference
// and to ours, and holds every answer against a model of each. The models differ by
// their [manner]s only.
//
//	go test -run Differential . -requests 100000 -files 24
func TestDifferential(t *testing.T) {
	units := []rls.RateLimitResponse_RateLimit_Unit{hour, day, week, month, year}
	awayFromTurns(20*time.Second+time.Duration(*requests)*5*time.Millisecond, units...)
	rules, drawn := servers.Rules{}, make([]*file, *files)
	for i := range drawn {
		drawn[i] = newFile(fmt.Sprint("domain", i), *seed+uint64(i), units)
		rules[drawn[i].name()] = drawn[i].String()
	}
	for _, mode := range modes {
		t.Run(mode.name, func(t *testing.T) {
			settings := append([]string{"LIMIT_RESPONSE_HEADERS_ENABLED=true", "RESPONSE_DYNAMIC_METADATA=true", "MEMORY=1GiB"}, mode.settings...)
			theirs := dial(t, servers.Reference.New(t, rules, settings...).GRPC, nil)
			ours := dial(t, servers.Sketchlimit.New(t, rules, settings...).GRPC, nil)
			var all sync.WaitGroup
			for _, f := range drawn {
				of := func(name string, c client, m manner) *pair {
					return &pair{name, c, model{manner: m, file: f, counts: map[string]uint64{}, shadow: mode.shadow, quota: mode.quota}}
				}
				their, our := of("theirs", theirs, manner{mode.theirs, false, math.MaxUint32}), of("ours", ours, manner{mode.ours, true, math.MaxInt32})
				all.Go(func() {
					for range *requests / *files / len(modes) {
						request := f.request()
						if err := compare(request, their, our); err != nil {
							t.Errorf("%v: %v; rules:\n%s", request, err, rules[f.name()])
							return
						}
					}
				})
			}
			all.Wait()
		})
	}
}

// pair is one of the services, and its model.
type pair struct {
	name string
	client
	model
}

// compare sends a request to both services, and returns an error if an answer is not as
// it must be.
func compare(request *rls.RateLimitRequest, theirs, ours *pair) error {
	var met []*rls.RateLimitResponse_DescriptorStatus // in the first answer
	var metadata *structpb.Struct
	for _, s := range []*pair{theirs, ours} {
		began := time.Now()
		answer, err := s.try(request)
		now := time.Now()
		if want := complaint(request); want != "" || err != nil {
			if got := grpcstatus.Convert(err); got.Message() != want || got.Code() != codes.Unknown {
				return fmt.Errorf("%s: %w, want %q", s.name, err, want)
			}
			continue
		}
		told := metadataOf(answer)
		if met == nil {
			met, metadata = answer.Statuses, told
		} else if !proto.Equal(metadata, told) {
			return fmt.Errorf("%s: metadata\nwant %v\n got %v", s.name, metadata, told)
		}
		want, headersTell := s.expect(request, met)
		if err := cmp.Or(checkHeaders(answer, headersTell, began, now), checkResets(answer, began, now)); err != nil {
			return fmt.Errorf("%s: %v: %w", s.name, answer, err)
		}
		if !proto.Equal(want, answer) {
			return fmt.Errorf("%s:\nwant %v\n got %v", s.name, want, answer)
		}
	}
	return nil
}

// metadataOf takes the dynamic metadata out of an answer, without what the reference
// told until January 2026 only, and what it tells since.
func metadataOf(answer *rls.RateLimitResponse) *structpb.Struct {
	metadata := answer.DynamicMetadata
	answer.DynamicMetadata = nil
	for _, name := range []string{"quotaModeEnabled", "quotaModeViolations", "metadata"} {
		delete(metadata.GetFields(), name)
	}
	for _, d := range metadata.GetFields()["descriptors"].GetListValue().GetValues() {
		// It is the text of a message, in which each binary has one space or two
		// between fields.
		if fields := d.GetStructValue().GetFields(); fields["limit"] != nil {
			words := strings.Fields(fields["limit"].GetStringValue())
			fields["limit"] = structpb.NewStringValue(strings.Join(words, " "))
		}
	}
	return metadata
}

// complaint is the text of the error that a request without sense gets.
func complaint(request *rls.RateLimitRequest) string {
	switch {
	case request.Domain == "":
		return "rate limit domain must not be empty"
	case len(request.Descriptors) == 0:
		return "rate limit descriptor list must not be empty"
	}
	return ""
}

// checkResets checks how long it is until each limit is reset, and takes the seconds
// out of the answer.
func checkResets(answer *rls.RateLimitResponse, from, to time.Time) (err error) {
	for _, status := range answer.Statuses {
		if status.DurationUntilReset != nil {
			err = cmp.Or(err, checkReset(status, from, to))
			status.DurationUntilReset = &durationpb.Duration{}
		}
	}
	return err
}

// checkHeaders checks what headers tell of a limit, and takes them out of the answer.
func checkHeaders(answer *rls.RateLimitResponse, told *rls.RateLimitResponse_DescriptorStatus, from, to time.Time) error {
	headers := map[string]string{}
	for _, h := range answer.ResponseHeadersToAdd {
		headers[h.Key] = h.Value
	}
	answer.ResponseHeadersToAdd = nil
	if told == nil && len(headers) == 0 {
		return nil
	}
	if told == nil || len(headers) != 3 || headers["RateLimit-Limit"] != fmt.Sprint(told.CurrentLimit.RequestsPerUnit) ||
		headers["RateLimit-Remaining"] != fmt.Sprint(told.LimitRemaining) {
		return fmt.Errorf("headers %v of %v", headers, told)
	}
	reset, err := strconv.ParseInt(headers["RateLimit-Reset"], 10, 64)
	return cmp.Or(err, checkSeconds(reset, told.CurrentLimit.Unit, from, to))
}
