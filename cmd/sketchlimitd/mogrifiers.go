package main

import (
	"fmt"
	"regexp"
	"strconv"

	"github.com/kelseyhightower/envconfig"
)

// mogrifier gives names that match its pattern another name, and tags, in which $1
// stands for the first group.
type mogrifier struct {
	pattern *regexp.Regexp
	name    string
	tags    map[string]string
}

// readMogrifiers reads the variables DOG_STATSD_MOGRIFIER_KEY_PATTERN, _NAME and _TAGS
// of each key.
func readMogrifiers(keys []string) (all []mogrifier, err error) {
	for _, key := range keys {
		var written struct {
			Pattern string            `envconfig:"PATTERN"`
			Name    string            `envconfig:"NAME"`
			Tags    map[string]string `envconfig:"TAGS"`
		}
		prefix := "DOG_STATSD_MOGRIFIER_" + key
		if err := envconfig.Process(prefix, &written); err != nil {
			return nil, err
		}
		if written.Pattern == "" || written.Name == "" {
			return nil, fmt.Errorf("%s_PATTERN %q, %s_NAME %q, must both be set", prefix, written.Pattern, prefix, written.Name)
		}
		for tag, value := range written.Tags {
			if tag == "" || value == "" {
				return nil, fmt.Errorf("%s_TAGS %q:%q, must have a name and a value", prefix, tag, value)
			}
		}
		pattern, err := regexp.Compile(written.Pattern)
		if err != nil {
			return nil, fmt.Errorf("%s_PATTERN: %w", prefix, err)
		}
		all = append(all, mogrifier{pattern, written.Name, written.Tags})
	}
	return all, nil
}

// mogrify returns the name and the tags that the first mogrifier which matches gives to
// a name.
func mogrify(all []mogrifier, name string) (string, []string) {
	for _, m := range all {
		if groups := m.pattern.FindStringSubmatch(name); groups != nil {
			var tags []string
			for tag, value := range m.tags {
				tags = append(tags, tag+":"+expand(value, groups))
			}
			return expand(m.name, groups), tags
		}
	}
	return name, nil
}

var group = regexp.MustCompile(`\$\d+`)

// expand puts groups in the place of $0, $1, …; those that do not exist stay as they are.
func expand(text string, groups []string) string {
	return group.ReplaceAllStringFunc(text, func(found string) string {
		if i, err := strconv.Atoi(found[1:]); err == nil && i < len(groups) {
			return groups[i]
		}
		return found
	})
}
