# The functions of the pipeline's programs; to be sourced with DIR NOTES.
#
# DIR is the directory that all work in. NOTES is one outside of lockfs: what is
# made there has the time of the server's own clock.
cd "$1" || exit
notes=$2
export LC_ALL=C HOME=/tmp

failed() { echo "FAILED $*"; }
stopped() { [ -e "$notes/stop" ]; }

# enter WHO has the script hold the lock of DIR until leave, as one writer, and
# writes down when that begins and ends. The serial number is read at the one
# and written at the other: of two who are in DIR at once, one's is lost.
visits=0
enter() {
	exec 9>.lockfs || exit
	visits=$((visits + 1))
	visit=$notes/$1.$visits
	mkdir "$visit.in" || failed mkdir
	serial=$(cat serial) || failed cat
}
leave() {
	echo $((serial + 1)) >serial || failed echo
	mkdir "$visit.out" || failed mkdir
	exec 9>&-
}

# db STATEMENT: asks the common database.
db() { sqlite3 -cmd '.timeout 60000' runs.db "$1" || failed sqlite3; }

# note LINE: adds a line to the common log, which is read and written anew.
note() { echo "$*" | sort -o log log - || failed sort; }
