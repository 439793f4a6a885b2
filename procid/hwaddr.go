package procid

import (
	"net"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ethtoolPermAddr is struct ethtool_perm_addr of linux/ethtool.h with room
// for MAX_ADDR_LEN bytes.
type ethtoolPermAddr struct {
	cmd, size uint32
	data      [32]byte
}

// ifreqData is struct ifreq of netdevice(7) with its pointer.
type ifreqData struct {
	name [unix.IFNAMSIZ]byte
	data unsafe.Pointer
	_    [16]byte // the union's longest member
}

// permanentAddr asks the driver for an interface's burnt-in address, which
// bonding or an administrator's change of the present one does not alter.
func permanentAddr(iface string) (net.HardwareAddr, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	p := ethtoolPermAddr{cmd: unix.ETHTOOL_GPERMADDR}
	p.size = uint32(len(p.data))
	r := ifreqData{data: unsafe.Pointer(&p)}
	copy(r.name[:unix.IFNAMSIZ-1], iface)
	_, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCETHTOOL, uintptr(unsafe.Pointer(&r)))
	runtime.KeepAlive(&p)
	if e != 0 {
		return nil, e
	}
	return net.HardwareAddr(p.data[:min(int(p.size), len(p.data))]), nil
}
