# What the scripts of panes share. $haft_tmux are tmux's own arguments, $haft_name the session,
# $haft_key says for which rights its pane was made.
haft_end() { printf '%s %s\n' "$haft_nonce" "$*" >&2; exit 0; }
haft_tm() { eval 'command tmux '"$haft_tmux"' "$@"'; }
# The pane in use and the process in it; fails where there is none, or one for other rights.
haft_find() {
    set -- $(haft_tm show-options -qv -t "=$haft_name:" @haft 2>/dev/null)
    [ "$1" = "$haft_key" ] || return 1
    set -- "$2" $(haft_tm display-message -p -t "$2" '#{pane_id} #{pane_pid} #{pane_dead} #{session_name}' 2>/dev/null)
    [ "$1" = "$2" ] && [ "$4" = 0 ] && [ "$5" = "$haft_name" ] || return 1
    haft_pane=$2
    haft_process=$3
}
# Whether a shell in the pane waits for a command; otherwise $haft_busy is what runs there.
haft_idle() {
    haft_busy=
    IFS= read -r haft_stat <"/proc/$haft_process/stat" || return 0
    set -- ${haft_stat##*) }
    [ "$6" -gt 1 ] && [ -r "/proc/$6/cmdline" ] || return 0
    haft_old=$IFS
    IFS='
'
    set -f
    set -- $(tr '\000' '\n' <"/proc/$6/cmdline")
    set +f
    IFS=' '
    haft_busy=$*
    IFS=$haft_old
    haft_word=${1##*/}
    if [ "$haft_word" = busybox ]; then shift; haft_word=$1; fi
    case ${haft_word#-} in
        sh | bash | dash | ash | zsh | ksh | mksh | fish | csh | tcsh) ;;
        *) return 1 ;;
    esac
    shift
    for haft_word; do
        case $haft_word in
            --*) ;;
            -*c*) return 1 ;;
            -*) ;;
            *) return 1 ;;
        esac
    done
} 2>/dev/null
