package main

import (
	"fmt"
	"strings"

	configv3 "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"go.yaml.in/yaml/v4"

	"github.com/sketchlimit/sketchlimit/rules"
)

// These are a file of rules as it is written.

type yamlFile struct {
	Domain      string           `yaml:"domain"`
	Descriptors []yamlDescriptor `yaml:"descriptors,omitempty"`
}

type yamlDescriptor struct {
	Key            string           `yaml:"key"`
	Value          string           `yaml:"value,omitempty"`
	Limit          *yamlLimit       `yaml:"rate_limit,omitempty"`
	Descriptors    []yamlDescriptor `yaml:"descriptors,omitempty"`
	Shadow         bool             `yaml:"shadow_mode,omitempty"`
	Quota          bool             `yaml:"quota_mode,omitempty"`
	DetailedMetric bool             `yaml:"detailed_metric,omitempty"`
	Metadata       map[string]any   `yaml:"metadata,omitempty"`
}

type yamlLimit struct {
	Unit      string        `yaml:"unit,omitempty"`
	Requests  uint32        `yaml:"requests_per_unit"`
	Unlimited bool          `yaml:"unlimited,omitempty"`
	Name      string        `yaml:"name,omitempty"`
	Replaces  []yamlReplace `yaml:"replaces,omitempty"`
}

type yamlReplace struct {
	Name string `yaml:"name"`
}

// xdsFile returns what a management server has sent as a file.
func xdsFile(c *configv3.RateLimitConfig) (rules.File, error) {
	data, err := yaml.Marshal(yamlFile{c.Domain, yamlDescriptors(c.Descriptors)})
	if err != nil {
		return rules.File{}, fmt.Errorf("%s: %w", c.Name, err)
	}
	return rules.File{Name: c.Name, Data: data}, nil
}

func yamlDescriptors(all []*configv3.RateLimitDescriptor) (written []yamlDescriptor) {
	for _, d := range all {
		written = append(written, yamlDescriptor{
			Key: d.GetKey(), Value: d.GetValue(), Limit: yamlRateLimit(d.GetRateLimit()), Descriptors: yamlDescriptors(d.GetDescriptors()),
			Shadow: d.GetShadowMode(), Quota: d.GetQuotaMode(), DetailedMetric: d.GetDetailedMetric(), Metadata: d.GetMetadata().AsMap(),
		})
	}
	return written
}

func yamlRateLimit(l *configv3.RateLimitPolicy) *yamlLimit {
	if l == nil {
		return nil
	}
	written := &yamlLimit{Requests: l.RequestsPerUnit, Unlimited: l.Unlimited, Name: l.Name}
	if l.Unit != configv3.RateLimitUnit_UNKNOWN {
		written.Unit = strings.ToLower(l.Unit.String())
	}
	for _, r := range l.Replaces {
		written.Replaces = append(written.Replaces, yamlReplace{r.GetName()})
	}
	return written
}
