//go:build race

package lock

// underRace: the race detector makes exploration ten times slower, and there is
// nothing for it to find in it: it is cut short.
const underRace = true
