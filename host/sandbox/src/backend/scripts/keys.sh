# All keys in one step of tmux: nobody's key comes between two of them.
haft_tm if-shell -F -t "$haft_pane" '#{pane_in_mode}' "send-keys -t $haft_pane -X cancel" "$@" >/dev/null 2>&1 ||
    haft_end '!pane'
haft_end 0 "$haft_pane"
