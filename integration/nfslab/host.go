package nfslab

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Host is one of a lab's hosts. It keeps its identity (name, machine-id,
// product uuid, addresses, disk) over PowerOff and Boot; its root file system is
// in memory and new after each.
type Host struct {
	Name      string // also its host name
	IP        string // in the lab's network
	MachineID string // 32 hexadecimal digits

	lab    *Lab
	role   string
	server string // whose export it mounts
	number int    // the last byte of its addresses
	uuid   string

	qemu *exec.Cmd
	gone chan struct{} // closed when qemu has ended
	port int           // of this machine, forwarded to the agent's
}

// memory of a host, in MiB.
const memory = 256

func (l *Lab) newHost(name, role string, number int) *Host {
	return &Host{
		Name: name, IP: "10.77.0." + strconv.Itoa(number), MachineID: randomID(),
		lab: l, role: role, number: number, uuid: randomID(),
	}
}

// path returns where a file of this host is on this machine.
func (h *Host) path(kind string) string { return filepath.Join(h.lab.dir, h.Name+"."+kind) }

// Console is the unix socket of the host's serial line, on which a shell runs.
func (h *Host) Console() string { return h.path("console") }

func (h *Host) diskType() string {
	if h.role == "server" && h.lab.config.Export.FS == "xfs" {
		return "xfs"
	}
	return "ext4"
}

// Boot switches the host on and returns when it is ready: a server serves, a
// client has mounted.
func (h *Host) Boot(ctx context.Context) error {
	if err := h.PowerOn(ctx); err != nil {
		return err
	}
	return h.Ready(ctx)
}

// PowerOn switches the host on and returns when its agent answers. What it
// mounts may not be mounted yet.
func (h *Host) PowerOn(ctx context.Context) error {
	if h.On() {
		return fmt.Errorf("nfslab: %s is on already", h.Name)
	}
	for {
		err := h.launch()
		if err == nil {
			err = h.await(ctx, func(state string) bool { return true })
		}
		if err == nil || !h.portTaken() {
			return err
		}
	}
}

// Ready waits until the host is what it is to be.
func (h *Host) Ready(ctx context.Context) error {
	return h.await(ctx, func(state string) bool { return state == "ready" })
}

// On reports whether the host has power.
func (h *Host) On() bool {
	if h.gone == nil {
		return false
	}
	select {
	case <-h.gone:
		return false
	default:
		return true
	}
}

// PowerOff takes the host's power away, at once; it returns when nothing of it
// runs. A paused host too, and one that is off.
func (h *Host) PowerOff() error {
	if !h.On() {
		return nil
	}
	if err := h.qemu.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-h.gone
	return nil
}

// Pause stops the host's processor. Its clocks go on.
func (h *Host) Pause() error { return h.signal(syscall.SIGSTOP) }

// Resume ends a Pause.
func (h *Host) Resume() error { return h.signal(syscall.SIGCONT) }

func (h *Host) signal(s os.Signal) error {
	if !h.On() {
		return fmt.Errorf("nfslab: %s is off", h.Name)
	}
	return h.qemu.Process.Signal(s)
}

// Cut pulls the host's network cable. Run goes another way and works on.
func (h *Host) Cut() error { return h.lab.hub.setCut(h.Name, true) }

// Join plugs the cable in again. TCP tries again after a while that grows with
// the time the cable was out.
func (h *Host) Join() error { return h.lab.hub.setCut(h.Name, false) }

// launch starts the host's QEMU.
func (h *Host) launch() error {
	port, err := freePort()
	if err != nil {
		return err
	}
	h.port = port
	log, err := os.Create(h.path("qemu"))
	if err != nil {
		return err
	}
	defer log.Close()
	h.qemu = exec.Command("qemu-system-x86_64", h.arguments()...)
	h.qemu.Stdout, h.qemu.Stderr = log, log
	if err := startBound(h.qemu); err != nil {
		return err
	}
	gone := make(chan struct{})
	h.gone = gone
	go func(cmd *exec.Cmd) {
		cmd.Wait() // how it ended is not asked: a power-off is a kill
		close(gone)
	}(h.qemu)
	return nil
}

func (h *Host) arguments() []string {
	c := h.lab.config
	squash := 0
	if c.Export.RootSquash {
		squash = 1
	}
	boot := []string{
		// no_timer_check: on a busy machine an emulated timer is found not to work.
		"console=ttyS0", "quiet", "loglevel=3", "panic=-1", "mitigations=off", "tsc=unstable", "no_timer_check",
		"lab.name=" + h.Name, "lab.role=" + h.role, "lab.ip=" + h.IP, "lab.machineid=" + h.MachineID,
		"lab.server=" + h.server, "lab.version=" + c.Version, "lab.opts=" + h.options(),
		"lab.disk=" + h.diskType(), "lab.exportfs=" + c.Export.FS, "lab.squash=" + strconv.Itoa(squash),
		"lab.lease=" + strconv.Itoa(int(c.Export.Lease/time.Second)),
	}
	args := []string{
		// Never KVM, even where the node is there: see the package's facts.
		"-accel", "tcg,thread=multi", "-cpu", "max", "-machine", "pc", "-m", strconv.Itoa(memory), "-smp", "1",
		"-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-name", "nfslab-" + h.Name,
		"-uuid", h.uuid[:8] + "-" + h.uuid[8:12] + "-" + h.uuid[12:16] + "-" + h.uuid[16:20] + "-" + h.uuid[20:],
		"-kernel", h.lab.image.kernel, "-initrd", h.lab.image.initrd, "-append", strings.Join(boot, " "),
		"-chardev", "socket,id=con,server=on,wait=off,path=" + h.Console() + ",logappend=on,logfile=" + h.path("log"), "-serial", "chardev:con",
		"-netdev", fmt.Sprintf("user,id=ctl,restrict=on,hostfwd=tcp:127.0.0.1:%d-10.0.2.15:7000", h.port),
		"-device", fmt.Sprintf("virtio-net-pci,netdev=ctl,mac=52:54:00:00:00:%02x,romfile=", h.number),
		"-netdev", "stream,id=lan,server=off,addr.type=unix,addr.path=" + h.path("lan"),
		"-device", fmt.Sprintf("virtio-net-pci,netdev=lan,mac=%v,romfile=", h.mac()),
		"-object", "rng-random,id=rng0,filename=/dev/urandom", "-device", "virtio-rng-pci,rng=rng0",
	}
	if h.role != "client" {
		args = append(args, "-drive", "file="+h.path("disk")+",format=raw,if=none,id=d0,cache=writeback", "-device", "virtio-blk-pci,drive=d0")
	}
	if h.lab.tools != "" {
		args = append(args, "-drive", "file="+h.lab.tools+",format=raw,if=none,id=tools,readonly=on", "-device", "virtio-blk-pci,drive=tools,serial=tools")
	}
	return args
}

// mac is the host's address on the lab's network; the guest knows the network
// by the address's first bytes.
func (h *Host) mac() net.HardwareAddr {
	return net.HardwareAddr{0x52, 0x54, 0x00, 0x77, 0x00, byte(h.number)}
}

// options are the mount options: the re-exporter's own mount is a plain one.
func (h *Host) options() string {
	if h.role == "reexport" {
		return "hard"
	}
	return h.lab.config.Options
}

// freePort returns a port of this machine that was free just now.
func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// portTaken reports whether the host's QEMU ended because somebody else took
// the port between freePort and its start.
func (h *Host) portTaken() bool {
	if h.gone == nil || h.On() {
		return false
	}
	text, err := os.ReadFile(h.path("qemu"))
	return err == nil && strings.Contains(string(text), "Could not set up host forwarding rule")
}

// Log returns the end of what the host's console and its QEMU printed.
func (h *Host) Log() string {
	const end = 4000
	var b strings.Builder
	for _, kind := range []string{"log", "qemu"} {
		text, err := os.ReadFile(h.path(kind))
		if err != nil {
			text = []byte(err.Error())
		}
		fmt.Fprintf(&b, "%s: %s\n", h.path(kind), text[max(0, len(text)-end):])
	}
	return b.String()
}
