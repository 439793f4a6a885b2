# validate.sh DIR NOTES ROUNDS: validates the dataset in DIR, as often as said,
# and writes the report beside it. Then it makes NOTES/stop.
. /bin/work.sh
rounds=$3

# wrong WHAT: the dataset is not what its producer has made.
wrong() { echo "WRONG $*"; }

round=0
while [ $round -lt "$rounds" ]; do
	enter validate
	if [ -s MANIFEST ]; then
		round=$((round + 1))
		sha256sum --quiet -c MANIFEST >/tmp/sums 2>&1 || wrong sums
		gzip -dc part-2.csv.gz | cmp -s - part-2.csv || wrong gzip
		tar -df all.tar >/tmp/differs 2>&1 || wrong tar
		[ "$(cat part-*.csv | wc -l)" = "$(cat total)" ] || wrong total
		cp /tmp/sums "report-$round.new" && mv "report-$round.new" "report-$round" || failed mv
		db "insert into runs values ('validate', $round)"
		note validate $round
	fi
	leave
done
mkdir "$notes/stop"
echo "validated $round"
