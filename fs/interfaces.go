package fs

import (
	"github.com/hanwen/go-fuse/v2/fuse"

	fusefs "github.com/hanwen/go-fuse/v2/fs"

	"github.com/lockfs/lockfs/fs/gate"
)

// go-fuse asks each node and handle what it can do, and takes what is missing
// for not supported. What is here is not to go missing.
var (
	_ fuse.RawFileSystem = (*raw)(nil)
	_ gate.Dir           = (*dirNode)(nil)

	_ interface {
		fusefs.NodeLookuper
		fusefs.NodeGetattrer
		fusefs.NodeSetattrer
		fusefs.NodeStatfser
		fusefs.NodeOpendirHandler
		fusefs.NodeCreater
		fusefs.NodeMkdirer
		fusefs.NodeMknoder
		fusefs.NodeSymlinker
		fusefs.NodeLinker
		fusefs.NodeUnlinker
		fusefs.NodeRmdirer
		fusefs.NodeRenamer
		fusefs.NodeGetxattrer
		fusefs.NodeSetxattrer
		fusefs.NodeListxattrer
		fusefs.NodeRemovexattrer
	} = (*dirNode)(nil)

	_ interface {
		fusefs.NodeGetattrer
		fusefs.NodeSetattrer
		fusefs.NodeStatfser
		fusefs.NodeReadlinker
		fusefs.NodeOpener
		fusefs.NodeCopyFileRanger
		fusefs.NodeGetxattrer
		fusefs.NodeSetxattrer
		fusefs.NodeListxattrer
		fusefs.NodeRemovexattrer
	} = (*fileNode)(nil)

	_ interface {
		fusefs.FileReader
		fusefs.FileWriter
		fusefs.FileFlusher
		fusefs.FileReleaser
		fusefs.FileFsyncer
		fusefs.FileAllocater
		fusefs.FileLseeker
	} = (*fileHandle)(nil)

	_ interface {
		fusefs.FileReaddirenter
		fusefs.FileSeekdirer
		fusefs.FileFsyncdirer
		fusefs.FileReleasedirer
	} = (*dirHandle)(nil)

	_ interface {
		fusefs.NodeGetattrer
		fusefs.NodeSetattrer
		fusefs.NodeStatfser
		fusefs.NodeOpener
	} = (*virtualNode)(nil)

	_ interface {
		fusefs.NodeGetattrer
		fusefs.NodeSetattrer
		fusefs.NodeOpener
	} = (*mountNode)(nil)

	_ interface {
		fusefs.FileReader
		fusefs.FileWriter
		fusefs.FileFlusher
		fusefs.FileReleaser
		fusefs.FileFsyncer
	} = (*virtualHandle)(nil)
)
