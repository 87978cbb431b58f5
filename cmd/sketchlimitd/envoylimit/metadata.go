package envoylimit

import (
	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/sketchlimit/sketchlimit/rules"
)

type fields = map[string]*structpb.Value

// dynamicMetadata is the request as Envoy's filters see it, with the metadata of the
// rules that admit it.
func dynamicMetadata(request *ratelimitv3.RateLimitRequest, r *response, answer *rules.Answer) *structpb.Struct {
	descriptors := new(structpb.ListValue)
	for _, d := range request.Descriptors {
		if d != nil {
			descriptors.Values = append(descriptors.Values, structpb.NewStructValue(&structpb.Struct{Fields: descriptorFields(d)}))
		}
	}
	all := fields{"domain": structpb.NewStringValue(request.Domain), "descriptors": structpb.NewListValue(descriptors)}
	if request.HitsAddend != 0 {
		all["hitsAddend"] = structpb.NewNumberValue(float64(request.HitsAddend))
	}
	passed := map[string]any{}
	for i := range answer.Statuses {
		if rule := answer.Statuses[i].Rule; rule != nil && !rule.Unlimited && r.Statuses[i].Code == ok {
			merge(passed, rule.Metadata)
		}
	}
	// What a file says is JSON's kinds of values; anything else has no place in the
	// message.
	if metadata, err := structpb.NewStruct(passed); err == nil && len(passed) > 0 {
		all["metadata"] = structpb.NewStructValue(metadata)
	}
	return &structpb.Struct{Fields: all}
}

func descriptorFields(d *commonv3.RateLimitDescriptor) fields {
	entries := new(structpb.ListValue)
	for _, e := range d.Entries {
		entries.Values = append(entries.Values, structpb.NewStringValue(e.GetKey()+"="+e.GetValue()))
	}
	all := fields{"entries": structpb.NewListValue(entries)}
	if d.Limit != nil {
		all["limit"] = structpb.NewStringValue(d.Limit.String())
	}
	if d.HitsAddend != nil {
		all["hitsAddend"] = structpb.NewNumberValue(float64(d.HitsAddend.Value))
	}
	return all
}

// merge adds what the other has and the first has not, also inside of mappings that
// both have.
func merge(into, other map[string]any) {
	for name, value := range other {
		mine, have := into[name]
		fields, mapping := value.(map[string]any)
		switch mine, both := mine.(map[string]any); {
		case !have && mapping:
			into[name] = map[string]any{} // not theirs, which belongs to the rule
			merge(into[name].(map[string]any), fields)
		case !have:
			into[name] = value
		case both && mapping:
			merge(mine, fields)
		}
	}
}
