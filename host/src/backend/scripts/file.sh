# What reading and writing a file share: where $haft_path really is, and whether it may be touched.
# The last step is taken by name in a directory that was entered before, so that no directory on the way
# is another one by then. What a shell opens cannot be kept from being a link that was put there since
# it was looked at: whoever does that there runs commands there already.
haft_end() { printf '%s %s\n' "$haft_nonce" "$*" >&2; exit 0; }
unset CDPATH
if [ -n "$haft_directory" ]; then cd -- "$haft_directory" 2>/dev/null || haft_end '!directory'; fi
# Enters the real directory of $haft_path; $haft_leaf is its name there, which is no link.
haft_reach() {
    haft_hops=0
    while :; do
        case $haft_path in
            */ | */.)
                haft_leaf=${haft_path%/*}
                [ ! -f "${haft_leaf:-/}" ] || haft_end '!file'
                haft_end '!folder'
                ;;
            . | .. | */..) haft_end '!folder' ;;
            /*) ;;
            *) haft_path=./$haft_path ;;
        esac
        haft_leaf=${haft_path##*/}
        haft_parent=${haft_path%/*}
        cd -P -- "${haft_parent:-/}" 2>/dev/null || haft_end '!parent'
        [ -L "./$haft_leaf" ] || break
        haft_hops=$((haft_hops + 1))
        [ $haft_hops -le 8 ] || haft_end '!links'
        haft_path=$(readlink "./$haft_leaf" && echo x) || haft_end '!links'
        haft_path=${haft_path%?x}
    done
    haft_real=$(pwd -P && echo x)
    haft_real=${haft_real%?x}
    haft_real=${haft_real%/}/$haft_leaf
}
# Whether $haft_real lies in the directory $1, by its real name.
haft_within() {
    haft_root=$(cd -P -- "$1" 2>/dev/null && pwd -P) || return 1
    case $haft_real in
        "${haft_root%/}"/*) return 0 ;;
        *) return 1 ;;
    esac
}
