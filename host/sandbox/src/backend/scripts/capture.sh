# Prints what the pane shows; the arguments are flags of capture-pane.
haft_note=
if [ -n "$haft_alternate" ]; then
    haft_tm capture-pane -p "$@" -a -t "$haft_pane" 2>/dev/null && haft_end 0 "$haft_pane"
    haft_note=main
fi
haft_tm capture-pane -p "$@" -t "$haft_pane" 2>/dev/null || haft_end '!pane'
haft_end 0 "$haft_pane" $haft_note
