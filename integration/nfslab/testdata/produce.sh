# produce.sh DIR NOTES ROUNDS: makes the dataset in DIR anew, ROUNDS times at
# least, until there is NOTES/stop.
. /bin/work.sh
rounds=$3
git() { command git -c user.name=producer -c user.email=producer@lab -c gc.auto=0 -C repo "$@" || failed git "$@"; }

# generate ROUND: the raw data, which are made where nobody else is.
generate() {
	rm -rf /tmp/raw && mkdir /tmp/raw && python3 - "$1" <<-'P' || failed python3
		import random, sys
		rnd = random.Random(int(sys.argv[1]))
		for part in range(4):
		    with open("/tmp/raw/part-%d.csv" % part, "w") as f:
		        for line in range(300):
		            print("%d,%s,%d" % (line, sys.argv[1], rnd.randrange(10**9)), file=f)
	P
}

round=0
until [ $round -ge "$rounds" ] && stopped; do
	round=$((round + 1))
	generate $round
	enter produce
	rsync -a --delete /tmp/raw/ raw/ || failed rsync
	cp raw/part-*.csv . || failed cp
	for part in part-*.csv; do
		sort -t, -k3n -o $part $part || failed sort
	done
	sed -i "s/,$round,/,run $round,/" part-[01].csv || failed sed
	sed -i "s/.*/round $round/" stamp || failed sed
	gzip -9c part-2.csv >part-2.csv.gz || failed gzip
	tar -cf all.tar part-*.csv || failed tar
	make -B -s total || failed make
	sha256sum part-* all.tar total >MANIFEST || failed sha256sum
	db "insert into runs values ('produce', $round)"
	note produce $round
	cp MANIFEST repo || failed cp
	git add MANIFEST
	git commit -q -m "round $round"
	leave
done
echo "rounds $round"
