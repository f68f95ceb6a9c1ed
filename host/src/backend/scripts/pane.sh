# The pane's part of a command that is waited for; see follow.sh.
d=${0%/*}
mv "$d/ready" "$d/started" 2>/dev/null || { echo 'haft: this command was given up'; exit 1; }
read -r m <"$d/mark"
trap : INT QUIT TERM
trap '' TSTP
marked() {
    for f in $(grep -lsF -e "HAFT_JOB=$m" /proc/[0-9]*/environ); do
        f=${f#/proc/}
        kill "-$1" "${f%/*}"
    done
} 2>/dev/null
# The lease is held by whoever follows; without it nothing runs.
(sleep 10; [ -e "$d/leased" ] || kill -KILL -$$) >/dev/null 2>&1 </dev/null &
exec 9<"$d/lease"
: >"$d/leased"
(
    trap '' INT QUIT TERM HUP
    read -r x <&9
    kill -TERM -$$
    marked TERM
    sleep 1
    marked KILL
    marked KILL
    sleep 1
    kill -KILL -$$
) >/dev/null 2>&1 </dev/null &
w=$!
echo started >"$d/events"
cat "$d/shown"
(trap '' INT QUIT TERM; exec tee "$d/out") <"$d/o" 9<&- &
a=$!
(trap '' INT QUIT TERM; exec tee "$d/err" >&2) <"$d/e" 9<&- &
b=$!
# Held open until the code is there: whoever reads to the end finds it.
exec 6>"$d/o" 7>"$d/e"
HAFT_JOB=$m sh "$d/command" >&6 2>&7 6>&- 7>&- 9<&-
c=$?
# What it left in its group: asked to end, and ended a moment later.
(trap '' INT QUIT TERM; exec 6>&- 7>&-; sleep 1; kill -KILL -$$) >/dev/null 2>&1 </dev/null &
r=$!
echo "$c" >"$d/code.new" && mv "$d/code.new" "$d/code"
exec 6>&- 7>&-
kill -TERM -$$ 2>/dev/null
wait $a
wait $b
kill -KILL $w $r 2>/dev/null
[ "$c" = 0 ] || echo "(exit code: $c)"
exit "$c"
