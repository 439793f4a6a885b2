package lock

import "time"

// LingerAuto as a Config's Linger means: for as long as it takes to release a
// lock and take it again, 10 ms at least and 1 s at the most. Between those, what
// is lost by lingering in vain is never more than the release and take that it
// would have saved. So a slow server makes a lock linger longer, and a fast one
// does not.
const LingerAuto time.Duration = -1

const (
	// lingerLeast is what most jobs need to open the next file.
	lingerLeast = 10 * time.Millisecond
	// lingerMost bounds what one request that hung adds.
	lingerMost = time.Second
)

// linger is how long locks linger.
type linger struct {
	fixed time.Duration // LingerAuto, or how long
	// take and release are what they took lately.
	take, release time.Duration
}

func (l *linger) took(d time.Duration)     { l.take = lately(l.take, d) }
func (l *linger) released(d time.Duration) { l.release = lately(l.release, d) }

// lately is the moving average of measurements, d being the last.
func lately(average, d time.Duration) time.Duration {
	const weight = 4
	d = min(d, lingerMost)
	if average == 0 {
		return d
	}
	return average + (d-average)/weight
}

// duration is how long a lock lingers now.
func (l *linger) duration() time.Duration {
	if l.fixed != LingerAuto {
		return l.fixed
	}
	return min(max(l.take+l.release, lingerLeast), lingerMost)
}
