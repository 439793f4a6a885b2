package nfslab

import (
	"os/exec"
	"runtime"
	"sync"
	"syscall"
)

// starter starts programs that end with this process, however it ends: the
// kernel kills them when their parent does. It means the parent's THREAD
// (prctl(2), PR_SET_PDEATHSIG), and Go ends threads as it likes, so that one
// thread that never ends starts them all.
var starter = sync.OnceValue(func() chan<- func() {
	work := make(chan func())
	go func() {
		runtime.LockOSThread()
		for f := range work {
			f()
		}
	}()
	return work
})

// startBound starts a command in a process group of its own, to be killed with
// this process.
func startBound(cmd *exec.Cmd) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	done := make(chan error)
	starter() <- func() { done <- cmd.Start() }
	return <-done
}
