package nfslab_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/lockfs/lockfs/integration/nfslab"
)

// labs are the exports of the matrix.
var labs = []nfslab.Config{
	{Export: nfslab.Export{FS: "ext4"}},
	{Export: nfslab.Export{FS: "xfs"}},
	{Export: nfslab.Export{FS: "tmpfs"}},
	{Export: nfslab.Export{FS: "ext4", RootSquash: true}},
	{Export: nfslab.Export{FS: "xfs", RootSquash: true}},
	{Export: nfslab.Export{FS: "tmpfs", RootSquash: true}},
	{Export: nfslab.Export{FS: "ext4"}, Kernel: "6.12"},
	{Export: nfslab.Export{FS: "ext4"}, Reexport: true},
	{Export: nfslab.Export{FS: "xfs", RootSquash: true}, Reexport: true},
	{Export: nfslab.Export{FS: "tmpfs"}, Reexport: true},
}

// versions and mountOptions are how each export is mounted.
var (
	versions     = []string{"4.2", "4.1", "4.0", "3"}
	mountOptions = []string{"hard", "soft", "hard,noac", "hard,actimeo=600"}
)

// labName names a kind of export.
func labName(config nfslab.Config) string {
	name := config.Export.FS
	if config.Export.RootSquash {
		name += ", root_squash"
	}
	if config.Reexport {
		name += ", re-exported"
	}
	if config.Kernel != "" {
		name += ", kernel " + config.Kernel
	}
	return name
}

// TestMatrix asserts what the lock rests on, and the lock itself, for each kind
// of export by each kind of mount.
func TestMatrix(t *testing.T) {
	needMatrix(t)
	for _, config := range labs {
		t.Run(labName(config), func(t *testing.T) {
			var table strings.Builder
			fmt.Fprintf(&table, "| NFS | options | %s |\n|%s\n", strings.Join(columns, " | "), strings.Repeat("---|", 2+len(columns)))
			w := newWorld(t, config)
			for _, version := range versions {
				for _, options := range mountOptions {
					r := row{}
					if !t.Run(version+","+options, func(t *testing.T) { w.cell(t, r, config, version, options) }) {
						options += " FAILED"
					}
					fmt.Fprintf(&table, "| %s | %s |", version, options)
					for _, c := range columns {
						fmt.Fprintf(&table, " %s |", r[c])
					}
					fmt.Fprintln(&table)
				}
			}
			report(t, mountsOf(config), table.String())
		})
	}
}

// cell tests one kind of mount of a lab that runs.
func (w *world) cell(t *testing.T, r row, config nfslab.Config, version, options string) {
	outer := w.t
	w.t = t
	defer func() { w.t = outer }()
	ctx, cancel := context.WithTimeout(context.Background(), bound)
	defer cancel()
	from := w.lab.Server
	if config.Reexport {
		from = w.lab.Reexport
	}
	root := "/m/" + w.unused("m")
	for _, c := range w.c {
		if err := c.Mount(ctx, from, version, options, root); err != nil {
			t.Fatal(err)
		}
	}
	w.facts(r, root)
	w.ownership(r, root, config.Export.RootSquash)
	w.protocol(r, root)
	// A re-exporter takes up to a minute to notice.
	if !config.Reexport || options == "hard" {
		w.removed(r, root, config.Reexport)
		w.clean()
	}
}
