//go:build race

package nfslab_test

func init() { raced = true }
