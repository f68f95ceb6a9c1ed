# Finds the pane that $haft_target means: haft's own, however it is called.
haft_find || haft_end '!pane'
if [ -n "$haft_target" ]; then
    haft_meant=$(haft_tm display-message -p -t "$haft_target" '#{pane_id}' 2>/dev/null) || haft_meant=
    [ "$haft_meant" = "$haft_pane" ] || haft_end "!target $haft_pane"
fi
