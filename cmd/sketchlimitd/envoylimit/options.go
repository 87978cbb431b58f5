package envoylimit

import "fmt"

type options struct {
	headers         headerNames
	shadow          bool
	dynamicMetadata bool
	loaded          func() bool
	observers       []func(*Observation)
}

// Option changes what a [Service] does.
type Option func(*options) error

// Headers adds three headers to responses to clients: the limit, what remains of it,
// and the seconds until it is whole again.
func Headers(limit, remaining, reset string) Option {
	return func(o *options) error {
		if limit == "" || remaining == "" || reset == "" {
			return fmt.Errorf("envoylimit: Headers %q, %q, %q, must be three names", limit, remaining, reset)
		}
		o.headers = headerNames{limit, remaining, reset}
		return nil
	}
}

// Shadow refuses nothing: requests that the rules refuse are answered OK, and counted
// in [Stats]. What each rule says stays in the answer.
func Shadow() Option {
	return func(o *options) error {
		o.shadow = true
		return nil
	}
}

// DynamicMetadata adds the request to the answer, and the metadata of the rules that
// admit it, so that Envoy can decide by it.
func DynamicMetadata() Option {
	return func(o *options) error {
		o.dynamicMetadata = true
		return nil
	}
}

// Loaded sets the function that reports whether there are rules yet, for services that
// load them later. Until it returns true, requests get an error.
func Loaded(loaded func() bool) Option {
	return func(o *options) error {
		if loaded == nil {
			return fmt.Errorf("envoylimit: Loaded nil, must be a function")
		}
		o.loaded = loaded
		return nil
	}
}

// Observe adds a function that is called with each answered request, after the functions
// added before it. It must be safe for concurrent use, and must not keep its argument.
func Observe(observer func(*Observation)) Option {
	return func(o *options) error {
		if observer == nil {
			return fmt.Errorf("envoylimit: Observe nil, must be a function")
		}
		o.observers = append(o.observers, observer)
		return nil
	}
}
