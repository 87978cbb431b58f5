package waiting

// Lines returns how many keys are waited for.
func Lines(q *Queue) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.lines)
}
