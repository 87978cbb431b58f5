package rules

// Parse reads a file as far as it can be read without taking the memory of its rules.
func Parse(file string, data []byte) (rules []*Rule, match func(Descriptor) (*Rule, []byte), err error) {
	s := newSet(nil)
	if err := s.addFile(file, data); err != nil {
		return nil, nil, err
	}
	match = func(d Descriptor) (*Rule, []byte) { return s.domains.first[0].of.match(d, nil) }
	return s.rules, match, nil
}
