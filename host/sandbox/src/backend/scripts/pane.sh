# The pane's part of a command that is waited for; see follow.sh.
d=${0%/*}
mv "$d/ready" "$d/started" 2>/dev/null || { echo 'haft: this command was given up'; exit 1; }
read -r m <"$d/mark"
# What is started from here on is not ended by what ends the command: it inherits this.
trap '' INT QUIT TERM TSTP
marked() {
    for f in $(grep -lszF -e "HAFT_JOB=$m" /proc/[0-9]*/environ); do
        f=${f#/proc/}
        kill "-$1" "${f%/*}"
    done
} 2>/dev/null
# Whether something of the command is in its group, which ends with it. By the group, not by the mark: a process
# shows no environment while it begins to run a program. What is a zombie (Z) or exiting (0x4) was not left.
left() {
    read -r s x </proc/self/stat
    for f in $(grep -lsE "^[0-9]+ \(.*\) [^Z] [0-9]+ $$ " /proc/[0-9]*/stat); do
        read -r x <"$f" || continue
        p=${x%% *}
        set -- ${x##*) }
        case " $$ $t $w $a $b $s " in *" $p "* | *" $2 "*) continue ;; esac
        [ $(($7 & 4)) != 0 ] || { echo ' left'; return; }
    done
} 2>/dev/null
# The follower holds the lease; without the lease nothing runs. This process does not end before the command: SIGCHLD
# interrupts an `open` of this shell that the sandbox observes, and busybox does not repeat the `open`.
(
    i=0
    until [ -e "$d/leased" ] || [ $i -ge 100 ]; do
        sleep 0.1 || sleep 1
        i=$((i + 1))
    done
    [ -e "$d/leased" ] || kill -KILL -$$
    exec sleep 2147483647
) >/dev/null 2>&1 </dev/null &
t=$!
exec 9<"$d/lease"
: >"$d/leased"
(
    trap '' HUP
    read -r x <&9
    # The follower may have removed the folder already.
    (: >"$d/stopping")
    kill -TERM -$$
    marked TERM
    sleep 1
    marked KILL
    marked KILL
    rm -rf "$d"
    kill -KILL -$$
) >/dev/null 2>&1 </dev/null &
w=$!
# Held by the two that write there, too: before them nobody else may hold them any more.
exec 3>"$d/out" 4>"$d/err"
echo started >"$d/events"
cat "$d/shown"
# Held open until the code is there: a reader that reads to the end finds the code. For reading too, since a shell
# that waits for the other side of a pipe gives up when a child of its own ends.
exec 6<>"$d/o" 7<>"$d/e"
exec 5<"$d/o" 8<"$d/e"
tee "$d/out" <&5 4>&- 5<&- 6>&- 7>&- 8<&- 9<&- &
a=$!
tee "$d/err" <&8 3>&- 5<&- 6>&- 7>&- 8<&- 9<&- >&2 &
b=$!
exec 3>&- 4>&- 5<&- 8<&-
trap : INT QUIT TERM
# By way of `env`, since some shells run what they know without a new environment.
(exec env HAFT_JOB="$m" sh "$d/command" >&6 2>&7 6>&- 7>&- 9<&-)
c=$?
trap '' INT QUIT TERM
if [ -e "$d/stopping" ] || [ ! -d "$d" ]; then s=yes; else s=; fi
# What it left in its group is asked to end, and ended a moment later.
{ echo "$c$(left)" >"$d/code.new" && mv "$d/code.new" "$d/code"; } 2>/dev/null
(
    exec 6>&- 7>&- 9<&-
    i=0
    while [ -e "$d/code" ] && [ $i -lt 10 ]; do
        sleep 0.1 || sleep 1
        i=$((i + 1))
    done
    [ -e "$d/code" ] && kill -KILL -$$
) >/dev/null 2>&1 </dev/null &
r=$!
exec 6>&- 7>&-
kill -TERM -$$ 2>/dev/null
[ -z "$s" ] || { kill -KILL $r; wait $w; } 2>/dev/null
wait $a
wait $b
kill -KILL $w $r $t 2>/dev/null
[ "$c" = 0 ] || echo "(exit code: $c)"
exit "$c"
