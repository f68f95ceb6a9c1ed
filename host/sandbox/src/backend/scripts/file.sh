# What reading and writing a file share: where $haft_path really is, and whether it may be touched.
# The last step is taken by name in a directory that was entered before, so that no directory on the way
# is another one by then. What a shell opens cannot be kept from being a link that was put there since
# this script looked at the name: a process that can put a link there can run commands there already.
haft_end() { printf '%s %s\n' "$haft_nonce" "$*" >&2; exit 0; }
unset CDPATH
if [ -n "$haft_directory" ]; then cd -- "$haft_directory" 2>/dev/null || haft_end '!directory'; fi
# Makes and enters the directory $haft_parent where it is not there; a script that only reads makes nothing.
haft_make() { return 1; }
# $haft_there is the nearest directory of the path $1 that is there, $haft_missing the rest.
haft_nearest() {
    haft_there=$1
    haft_missing=
    while [ ! -e "$haft_there" ] && [ ! -L "$haft_there" ]; do
        case ${haft_there##*/} in
            '' | .) ;;
            ..) return 1 ;;
            *) haft_missing=${haft_there##*/}${haft_missing:+/}$haft_missing ;;
        esac
        case $haft_there in
            */*) haft_there=${haft_there%/*} ;;
            *) return 1 ;;
        esac
        haft_there=${haft_there:-/}
    done
}
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
        cd -P -- "${haft_parent:-/}" 2>/dev/null || haft_make || haft_end '!parent'
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
# Whether $haft_real lies in the directory $1, by its real name, or would if that were there.
haft_within() {
    haft_nearest "$1" || return 1
    haft_root=$(cd -P -- "$haft_there" 2>/dev/null && pwd -P) || return 1
    haft_root=${haft_root%/}${haft_missing:+/}$haft_missing
    case $haft_real in
        "${haft_root%/}"/*) return 0 ;;
        *) return 1 ;;
    esac
}
