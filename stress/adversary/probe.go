package main

var probed []string

func (b *bench) probe(kind string, seed uint64) {}
