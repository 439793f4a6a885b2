package integration

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/lockfs/lockfs/lock"
)

// What the daemons of two hosts log is drawn: who held, and who waited.
func TestTimeline(t *testing.T) {
	w := newWorld(t, "--log-level", "debug")
	first := w.alpha.hold()
	second := w.beta.sh("echo second >>f")
	w.until("a wait that is long enough to be told of", func() bool {
		waiters := w.beta.status().Waiters
		return len(waiters) == 1 && time.Since(waiters[0].Since) > 2*lock.BriefWait
	})
	w.tell(first)
	w.expect(first, "closed")
	w.done(second)
	w.free()

	var logs []string
	for _, h := range []*host{w.alpha, w.beta} {
		var lines strings.Builder
		var log string
		// The last entry is written after the lock is gone.
		w.until("the entry of the release on "+h.Name, func() bool {
			events, err := h.daemon.Events()
			if err != nil {
				t.Fatal(err)
			}
			lines.Reset()
			for _, e := range events {
				if err := json.NewEncoder(&lines).Encode(e); err != nil {
					t.Fatal(err)
				}
			}
			log = lines.String()
			return strings.Contains(log, `"event":"released"`)
		})
		file := filepath.Join(t.TempDir(), "log")
		if err := os.WriteFile(file, []byte(log), 0o644); err != nil {
			t.Fatal(err)
		}
		logs = append(logs, file)
	}
	page, err := w.alpha.Command(lockfs, append([]string{"timeline"}, logs...)...).Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`held by sh \(\d+\) on alpha`, `held by sh \(\d+\) on beta`, `waited: sh \(\d+\) on beta`,
		`end: got the lock\s+behind process \d+ of host alpha`, `>D <tspan>held 2 times, waited for once`,
	} {
		if !regexp.MustCompile(want).Match(page) {
			t.Errorf("the page has no %q:\n%s", want, page)
		}
	}
}
