# Finds the pane of $haft_name, or makes it: with $haft_shell in it, as one word for a shell.
command -v tmux >/dev/null 2>&1 || haft_end '!tmux'
# What a command in a pane takes besides.
for haft_word in mktemp mkfifo tee; do
    command -v $haft_word >/dev/null 2>&1 || haft_end "!missing $haft_word"
done
haft_state=found
if ! haft_find; then
    haft_state=made
    [ -z "$(haft_tm show-options -qv -t "=$haft_name:" @haft 2>/dev/null)" ] || haft_state=again
    set --
    # In three words tmux runs it by itself; in one it would ask the user's own shell to, which is
    # `nologin` for many a service and has other quotes elsewhere.
    [ -z "$haft_shell" ] || set -- sh -c "$haft_shell"
    if haft_tm has-session -t "=$haft_name:" 2>/dev/null; then
        haft_pane=$(haft_tm new-window -d -P -F '#{pane_id}' -n haft -t "=$haft_name:" "$@") || haft_end '!session'
    else
        haft_pane=$(
            haft_tm start-server \; set-option -g history-limit 50000 \; set-option -g set-clipboard off \; \
                new-session -d -P -F '#{pane_id}' -s "$haft_name" -n haft -x 200 -y 50 "$@"
        ) || haft_end '!session'
        [ -z "$haft_shell" ] || haft_tm set-option -t "=$haft_name:" default-command "$haft_shell"
    fi
    haft_tm set-option -t "=$haft_name:" @haft "$haft_key $haft_pane" || haft_end '!session'
fi
haft_end 0 "$haft_state" "$haft_pane"
