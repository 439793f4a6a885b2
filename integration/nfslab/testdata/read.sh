# read.sh DIR NOTES: reads all in DIR again and again, with no lock, until there
# is NOTES/stop. It prints how often. What is replaced by a rename must always be
# whole; what is written in place may be half written.
. /bin/work.sh
reads=0
until stopped; do
	# Names vanish while they are listed, and that is said; it is no failure.
	ls -lR . >/dev/null 2>&1
	cat part-*.csv all.tar >/dev/null 2>&1
	stamp=$(cat stamp 2>&1)
	case $stamp in
	"round "[0-9] | "round "[0-9][0-9] | "round "[0-9][0-9][0-9]) ;;
	*"Stale file handle"*) echo "STALE" ;; # removed on the server while it was read
	*) echo "TORN $stamp" ;;
	esac
	reads=$((reads + 1))
done
echo "reads $reads"
