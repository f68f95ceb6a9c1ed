# Runs $haft_command to its end on a target, in $haft_directory unless that is empty. $haft_exec
# stands before what runs it: the words that confine it, or nothing.
# Standard input is haft: while it stays open the command is wanted. When it ends everything that
# carries the mark $haft_mark in its environment is stopped, also if its parent is another process by now.
exec 3<&0 </dev/null 5>&1 6>&2
haft_end() { printf '%s %s\n' "$haft_nonce" "$*" >&2; exit 0; }
if [ -n "$haft_directory" ]; then cd -- "$haft_directory" 2>/dev/null || haft_end '!directory'; fi
# An environment has NULs for ends of lines, which not every `grep` looks beyond unless it is told.
haft_marked() {
    for haft_f in $(grep -lszF -e "HAFT_JOB=$haft_mark" /proc/[0-9]*/environ); do
        haft_f=${haft_f#/proc/}
        kill "-$1" "${haft_f%/*}"
    done
} 2>/dev/null
(
    IFS= read -r haft_word <&3
    haft_marked TERM
    sleep 1
    haft_marked KILL
    haft_marked KILL
) >/dev/null 2>&1 5>&- 6>&- &
haft_watch=$!
haft_session=
if command -v setsid >/dev/null 2>&1; then haft_session=setsid; fi
# The number of the process that leads the command's group, and how the command ended. What a shell
# has to say of a signal is no part of what the command wrote.
haft_ended=$(
    exec 2>/dev/null
    env HAFT_JOB="$haft_mark" $haft_session sh -c 'echo $$; exec '"$haft_exec"' sh -c -- "$0" >&5 2>&6 5>&- 6>&- 3<&-' \
        "$haft_command"
    echo $?
)
set -- $haft_ended
haft_left=
if kill "-TERM" "-$1" 2>/dev/null; then
    haft_left=left
    haft_round=0
    while [ $haft_round -lt 3 ] && kill -0 "-$1" 2>/dev/null; do
        sleep 0.1 2>/dev/null || sleep 1
        haft_round=$((haft_round + 1))
    done
    kill -KILL "-$1" 2>/dev/null
fi
if [ -z "$haft_session" ]; then
    [ -z "$(grep -lszF -e "HAFT_JOB=$haft_mark" /proc/[0-9]*/environ 2>/dev/null)" ] || haft_left=left
    haft_marked KILL
fi
kill -KILL $haft_watch 2>/dev/null
haft_end "$2" $haft_left
