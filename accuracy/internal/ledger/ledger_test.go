package ledger

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestLedgerForgets(t *testing.T) {
	l := New(10 * time.Second)
	for i := range 1000 {
		l.Add(time.Unix(int64(i), 0), fmt.Sprint("o", i), 1)
	}
	assert.LessOrEqual(t, len(l.entries), 21, "two windows of keys")
	for i := range 1000 {
		l.Add(time.Unix(1000, int64(i)*1e8), "busy", 1)
	}
	assert.Equal(t, 100, l.Peak)
	assert.Less(t, cap(l.entries["busy"].entries), 1000, "the past is dropped")
}
