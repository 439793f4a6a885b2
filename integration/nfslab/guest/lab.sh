# The functions that make a host what it is; to be sourced.
export PATH=/bin:/sbin HOME=/root
for a in $(cat /proc/cmdline); do
	case $a in lab.*=*) a=${a#lab.}; eval "${a%%=*}='${a#*=}'" ;; esac
done

log() { echo "LAB $name $(cut -d' ' -f1 /proc/uptime) $*" >/dev/console; }

# state WORDS: what the agent answers to who asks whether the host is up.
state() {
	echo "$*" >/run/lab-state.new && mv /run/lab-state.new /run/lab-state
	case $* in booting*) ;; *) log "$*" ;; esac
}

channel() { # channel NAME LINE: fills a cache of the kernel that mountd would fill
	echo "$2" >/proc/net/rpc/$1/channel || { state "failed: /proc/net/rpc/$1/channel refused: $2"; return 1; }
}

# nfsd_start exports /export, and nothing else, as the NFSv4 root. There is no
# mountd: the kernel's caches are filled before the first thread starts.
# Flags (include/uapi/linux/nfsd/export.h): insecure_port 0x2, rootsquash 0x4,
# no_subtree_check 0x400, fsid 0x2000; sync is the absence of async.
nfsd_start() {
	[ -e /proc/fs/nfsd/threads ] || mount -t nfsd nfsd /proc/fs/nfsd || { state "failed: no nfsd"; return 1; }
	echo $lease >/proc/fs/nfsd/nfsv4leasetime; echo $lease >/proc/fs/nfsd/nfsv4gracetime
	for i in 1 2 11 12 13; do channel auth.unix.ip "nfsd 10.77.0.$i 2147483647 lab" || return; done
	channel nfsd.export "lab /export 2147483647 $((0x2402 + squash * 4)) 65534 65534 0" || return
	channel nfsd.fh "lab 1 \\x00000000 2147483647 /export" || return
	echo "+3 +4 +4.0 +4.1 +4.2" >/proc/fs/nfsd/versions
	# NFSv3 wants a portmapper: the agent, which may not be up yet.
	until grep -q '^ *[0-9]*: 0100007F:006F 00000000:0000 0A' /proc/net/tcp; do sleep 0.1; done
	echo "tcp 2049" >/proc/fs/nfsd/portlist || { state "failed: nfsd has no port"; return 1; }
	echo 8 >/proc/fs/nfsd/threads || { state "failed: nfsd does not start"; return 1; }
}

# nfsd_first ends the grace period of a server that nobody used before: there
# is nothing to reclaim, and renames would wait.
nfsd_first() {
	[ -e $1/.started ] && return 0
	>$1/.started
	echo Y >/proc/fs/nfsd/v4_end_grace
}

nfsd_stop() { echo 0 >/proc/fs/nfsd/threads; }

# options VERSION SERVER OPTIONS: the data of mount(2).
options() {
	case $1 in
	3) echo "vers=3,addr=$2,proto=tcp,port=2049,mountaddr=$2,mountproto=tcp,mountport=20048,mountvers=3,nolock,$3" ;;
	*) echo "vers=$1,addr=$2,clientaddr=$ip,$3" ;;
	esac
}

# nfs_mount DIR: mounts what the configuration says, as soon as it is there.
nfs_mount() {
	until agent mount nfs "$server:$([ $version = 3 ] && echo /export || echo /)" "$1" "$(options $version $server $opts)" 2>/run/mount-error; do
		state "booting: $(cat /run/mount-error)"; sleep 0.3
	done
}

up() {
	case $role in
	server)
		# The disk keeps what must outlive a power-off: which clients hold state,
		# and the exported files unless they are to live in memory.
		mkdir -p /disk && mount -t $disk /dev/vda /disk || { state "failed: no disk"; return 1; }
		mkdir -p /disk/v4recovery /disk/export
		mount -o bind /disk/v4recovery /var/lib/nfs/v4recovery
		if [ "$exportfs" = tmpfs ]; then mount -t tmpfs -o mode=755 export /export; else mount -o bind /disk/export /export; fi || { state "failed: no export"; return 1; }
		nfsd_start && nfsd_first /disk && state ready ;;
	reexport)
		mkdir -p /disk && mount -t $disk /dev/vda /disk || { state "failed: no disk"; return 1; }
		mkdir -p /disk/v4recovery; mount -o bind /disk/v4recovery /var/lib/nfs/v4recovery
		nfs_mount /export
		nfsd_start && nfsd_first /disk && state ready ;;
	client) nfs_mount /mnt && state ready ;;
	esac
}
