package nfslab_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/lockfs/lockfs/integration/nfslab"
)

// raced: this test was built with -race.
var raced bool

func itoa(n int) string { return strconv.Itoa(n) }

func ms(d time.Duration) string {
	return strconv.FormatFloat(float64(d.Microseconds())/1000, 'f', 1, 64)
}

// TestNFS is the short one: two clients of one NFSv4.2 export.
func TestNFS(t *testing.T) {
	w := newWorld(t, nfslab.Config{})
	r := row{}
	w.facts(r, "/mnt")
	w.ownership(r, "/mnt", false)
	w.protocol(r, "/mnt")
	for _, c := range columns {
		t.Logf("%s: %s", c, r[c])
	}
}
