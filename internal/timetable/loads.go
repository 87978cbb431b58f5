package timetable

import "math"

//go:generate go run ../../bench/loads -write loads_table.go

// LoadFor returns the share of places that may be in use on average for a rate of unseen
// keys that find none, in lines of so many entries: between two columns of the table by a
// line in the logarithm of the rate.
func LoadFor(entries int, rate float64) float64 {
	row := loads[entries]
	if rate >= loadRates[0] {
		return row[0]
	}
	i := 1
	for i < len(loadRates)-1 && rate < loadRates[i] {
		i++
	}
	part := math.Log(rate/loadRates[i-1]) / math.Log(loadRates[i]/loadRates[i-1])
	return row[i-1] + part*(row[i]-row[i-1])
}

// RefusedAt is the inverse of LoadFor. A load is of the keys that come: beyond the
// highest one that was measured, what the table takes in stays as it is.
func RefusedAt(entries int, load float64) float64 {
	row := loads[entries]
	if load > row[0] {
		return 1 - (1-loadRates[0])*row[0]/load
	}
	i := 1
	for i < len(row)-1 && load < row[i] {
		i++
	}
	part := (row[i-1] - load) / (row[i-1] - row[i])
	return loadRates[i-1] * math.Pow(loadRates[i]/loadRates[i-1], part)
}
