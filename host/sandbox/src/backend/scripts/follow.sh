# Has the pane run $haft_command and follows it: what it writes comes through pipes of its own,
# exactly, while the pane shows it. The pane's part is $haft_part; $haft_alone is set where nobody
# waits for the command. Standard input is haft: when it
# ends the command is stopped; when this script ends in any way the pane's part stops it itself.
haft_find || haft_end '!pane'
haft_round=0
until haft_idle; do
    [ $haft_round -lt 20 ] || haft_end "!busy $haft_busy"
    sleep 0.1 2>/dev/null || sleep 1
    haft_round=$((haft_round + 1))
done
umask 077
haft_d=$(mktemp -d "${TMPDIR:-/tmp}/haft.XXXXXX") || haft_end '!temporary'
trap 'rm -rf "$haft_d"' EXIT
trap 'exit 1' HUP INT TERM PIPE
mkfifo "$haft_d/o" "$haft_d/e" "$haft_d/out" "$haft_d/err" "$haft_d/events" "$haft_d/lease" &&
    printf '%s' "$haft_command" >"$haft_d/command" && printf '%s' "$haft_part" >"$haft_d/run" &&
    printf '%s\n' "$haft_shown" >"$haft_d/shown" && printf '%s\n' "$haft_mark" >"$haft_d/mark" &&
    : >"$haft_d/ready" || haft_end '!temporary'
exec 3<&0 </dev/null 8<>"$haft_d/events" 9<>"$haft_d/lease"
# This script holds the pipes open until the pane's part holds them. A reader then does not wait for the
# pane's part to start, and ends if that part never starts.
exec 4<>"$haft_d/out" 5<>"$haft_d/err"
( IFS= read -r haft_word <&3; echo stop >&8 ) >/dev/null 2>&1 4>&- 5>&- 9>&- &
haft_watch=$!
(
    while [ "$haft_patience" -gt 0 ] && [ -e "$haft_d/ready" ]; do
        sleep 0.1 2>/dev/null || sleep 1
        haft_patience=$((haft_patience - 1))
    done
    echo late >&8
) >/dev/null 2>&1 3<&- 4>&- 5>&- 9>&- &
haft_late=$!
if [ -z "$haft_alone" ]; then
    exec 6<"$haft_d/out" 7<"$haft_d/err"
    ( cat <&6; echo end >&8 ) 2>/dev/null 3<&- 4>&- 5>&- 7<&- 9>&- &
    ( cat <&7 >&2; echo end >&8 ) 3<&- 4>&- 5>&- 6<&- 9>&- &
    exec 6<&- 7<&-
fi
haft_tm if-shell -F -t "$haft_pane" '#{pane_in_mode}' "send-keys -t $haft_pane -X cancel" \; \
    send-keys -t "$haft_pane" C-e C-u \; send-keys -t "$haft_pane" -l -- " sh $haft_d/run" \; \
    send-keys -t "$haft_pane" Enter >/dev/null 2>&1 || haft_end '!pane'
haft_ends=0
haft_begun=
haft_unwanted=
# Only a pane's part that holds the lease hears of its end.
haft_stop() {
    haft_unwanted=yes
    if [ -n "$haft_begun" ]; then exec 9>&-; fi
}
haft_give_up() {
    if mv "$haft_d/ready" "$haft_d/gone" 2>/dev/null; then
        kill -KILL $haft_watch $haft_late 2>/dev/null
        haft_end '!late'
    fi
}
while [ $haft_ends -lt 2 ] && read -r haft_word <&8; do
    case $haft_word in
        started)
            haft_begun=yes
            exec 4>&- 5>&-
            [ -z "$haft_unwanted" ] || haft_stop
            [ -z "$haft_alone" ] || { kill -KILL $haft_watch 2>/dev/null; haft_end 0 "$haft_pane"; }
            ;;
        late) haft_give_up ;;
        stop)
            haft_give_up
            haft_stop
            ;;
        end) haft_ends=$((haft_ends + 1)) ;;
    esac
done
kill -KILL $haft_watch $haft_late 2>/dev/null
[ -f "$haft_d/code" ] && read -r haft_word <"$haft_d/code" || haft_word='!gone'
haft_end "$haft_word"
