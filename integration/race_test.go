//go:build race

package integration

func init() { buildFlags = append(buildFlags, "-race") }
