package main

import (
	"fmt"
	"go/format"
	"strings"
	"text/template"
	"time"

	"github.com/sketchlimit/sketchlimit"
)

// codeTemplate is laid out by gofmt afterwards. Three digits of a forecast are more than it is worth.
var codeTemplate = template.Must(template.New("code").Parse(`limiter, err := sketchlimit.New(sketchlimit.Config{
Limit: {{.Limit}},
{{if .LowestLimit}}LowestLimit: {{.LowestLimit}},
{{end}}Window: {{.Window}},
{{with .Algorithm}}Algorithm: sketchlimit.{{.}},
{{end}}{{if .Burst}}Burst: {{.Burst}},
{{end}}{{if gt .SubWindows 1}}SubWindows: {{.SubWindows}},
{{end}}Plan: &sketchlimit.Plan{
{{with .Plan}}Shards: {{.Shards}},{{if .BloomBytes}} BloomBytes: {{.BloomBytes}}, BloomProbes: {{.BloomProbes}},{{end}}
Depth: {{.Depth}}, Width: {{.Width}}, CellBits: {{.CellBits}},
{{if .HeavyEntries}}HeavyEntries: {{.HeavyEntries}}, HeavyThreshold: {{.HeavyThreshold}},
{{end}}{{with .Forecast}}Forecast: &sketchlimit.Forecast{
MemoryBytes: {{.MemoryBytes}}, Keys: {{printf "%.3g" .Keys}}, Cliff: {{printf "%.3g" .Cliff}},
At: [{{len .At}}]sketchlimit.Expected{
{{range .At}}{FalseDenialRate: {{printf "%.3g" .FalseDenialRate}}, WithheldShare: {{printf "%.3g" .WithheldShare}}, EstimateError: {{printf "%.3g" .EstimateError}}},
{{end}}},
},
{{end}}{{end}}},
})
`))

var inCode = map[sketchlimit.Algorithm]string{sketchlimit.FixedWindow: "FixedWindow", sketchlimit.TokenBucket: "TokenBucket"}

// code returns the Go statement that makes the limiter. The forecast goes along, because
// Stats tell by it whether the limiter runs outside its plan.
func (p *plans) code() (string, error) {
	var b strings.Builder
	if err := codeTemplate.Execute(&b, struct {
		Limit       int
		LowestLimit int
		Window      string
		Algorithm   string // "" for the default
		Burst       int
		SubWindows  int
		Plan        sketchlimit.Plan
	}{p.goal.Limit, p.goal.LowestLimit, inGo(p.window), inCode[p.goal.Algorithm], p.goal.Burst, p.goal.SubWindows, p.Plan}); err != nil {
		return "", err
	}
	code, err := format.Source([]byte(b.String()))
	return string(code), err
}

// inGo is a duration as Go writes it, in the largest unit that divides it.
func inGo(d time.Duration) string {
	for _, unit := range []struct {
		name string
		span time.Duration
	}{{"Hour", time.Hour}, {"Minute", time.Minute}, {"Second", time.Second}, {"Millisecond", time.Millisecond}, {"Nanosecond", 1}} {
		switch {
		case d == unit.span:
			return "time." + unit.name
		case d%unit.span == 0:
			return fmt.Sprintf("%d * time.%s", d/unit.span, unit.name)
		}
	}
	return ""
}
