//go:build !race

package lock

const underRace = false
