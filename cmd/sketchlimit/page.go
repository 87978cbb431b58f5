package main

func (r *report) page() ([]byte, error) { return nil, nil }
