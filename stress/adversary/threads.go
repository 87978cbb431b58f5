package main

func (b *bench) threads(kind string, seed uint64) {}
