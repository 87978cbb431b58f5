package main

import (
	"fmt"
	"go/format"
	"strconv"
	"strings"
	"text/template"
	"time"

	"github.com/sketchlimit/sketchlimit"
)

// codeTemplate is laid out by gofmt afterwards. Three digits of a rate are more than it
// is worth.
var codeTemplate = template.Must(template.New("code").Funcs(template.FuncMap{"inCode": inCode, "keys": keysInCode}).Parse(
	`{{define "purpose"}}Limit: {{.Limit}},
{{with .LowestLimit}}LowestLimit: {{.}},
{{end}}{{with inCode .Algorithm}}Algorithm: sketchlimit.{{.}},
{{end}}{{with .Burst}}Burst: {{.}},
{{end}}{{if gt .SubWindows 1}}SubWindows: {{.SubWindows}},
{{end}}{{end}}limiter, err := sketchlimit.New(sketchlimit.Config{
{{template "purpose" .Plan}}Window: {{.Window}},
Plan: &sketchlimit.Plan{
{{with .Plan}}Shards: {{.Shards}},{{if .BloomBytes}} BloomBytes: {{.BloomBytes}}, BloomProbes: {{.BloomProbes}},{{end}}
Depth: {{.Depth}}, Width: {{.Width}}, CellBits: {{.CellBits}},
{{if .HeavyEntries}}HeavyEntries: {{.HeavyEntries}}, PromoteAt: {{.PromoteAt}},
{{end}}{{template "purpose" .}}Keys: {{keys .Keys}}, FalseDenialRate: {{printf "%.3g" .FalseDenialRate}},
{{with .Goal}}Goal: {{printf "%.3g" .}},
{{end}}{{end}}},
})
`))

// inCode is the name of an algorithm's constant, "" of the default.
func inCode(a sketchlimit.Algorithm) string {
	return map[sketchlimit.Algorithm]string{sketchlimit.FixedWindow: "FixedWindow", sketchlimit.TokenBucket: "TokenBucket"}[a]
}

// keysInCode is a number of keys without an exponent.
func keysInCode(n float64) string {
	if n >= 100 {
		return strconv.FormatFloat(n, 'f', 0, 64)
	}
	return strconv.FormatFloat(n, 'g', 3, 64)
}

// code returns the Go statement that makes the limiter. What the plan is for goes
// along: New refuses it for another limit, and Stats tells by Keys and FalseDenialRate
// whether the limiter runs outside it.
func (p *plans) code() (string, error) {
	var b strings.Builder
	if err := codeTemplate.Execute(&b, struct {
		Window string
		Plan   sketchlimit.Plan
	}{inGo(p.window), p.Plan}); err != nil {
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
