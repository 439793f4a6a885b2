package main

import (
	"time"

	fusefs "github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
)

// serveLoopback serves go-fuse's own loopback file system as its example does,
// but for passthrough, with which writes outlive the daemon.
func serveLoopback(source, target string) error {
	root, err := fusefs.NewLoopbackRoot(source)
	if err != nil {
		return err
	}
	second := time.Second
	server, err := fusefs.Mount(target, root, &fusefs.Options{
		AttrTimeout: &second, EntryTimeout: &second, NullPermissions: true,
		MountOptions: fuse.MountOptions{
			Name: "loopback", FsName: source, AllowOther: true, DirectMount: true,
			DisabledCapabilities: fuse.CAP_PASSTHROUGH,
			Options:              []string{"default_permissions"},
		},
	})
	if err != nil {
		return err
	}
	server.Wait()
	return nil
}
