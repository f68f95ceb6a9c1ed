# Puts what comes on standard input, $haft_size bytes, in the place of the file. Directories that are
# missing on the way are made.
# They are judged before they are made, by the real name of what is there already.
haft_make() {
    haft_nearest "$haft_parent" || return 1
    cd -P -- "$haft_there" 2>/dev/null || return 1
    haft_rest=$haft_missing
    haft_real=$(pwd -P && echo x)
    haft_real=${haft_real%?x}
    haft_real=${haft_real%/}/$haft_rest/$haft_leaf
    haft_judge
    while [ -n "$haft_rest" ]; do
        haft_step=${haft_rest%%/*}
        case $haft_rest in
            */*) haft_rest=${haft_rest#*/} ;;
            *) haft_rest= ;;
        esac
        mkdir -- "./$haft_step" 2>/dev/null || [ -d "./$haft_step" ] || haft_end '!permission'
        cd -P -- "./$haft_step" 2>/dev/null || return 1
    done
}
haft_reach
haft_judge
if [ -d "./$haft_leaf" ]; then haft_end '!folder'; fi
if [ -e "./$haft_leaf" ]; then [ -f "./$haft_leaf" ] || haft_end '!special'; fi
haft_new=./.haft.$haft_mark
trap 'rm -f "$haft_new"' EXIT
# Whoever is in the middle of reading the old file goes on reading it, and half of a new one is
# never seen. Where a file cannot be put in its place it is written as it lies there.
if (set -C; : >"$haft_new") 2>/dev/null; then
    [ ! -e "./$haft_leaf" ] || cp -p "./$haft_leaf" "$haft_new" 2>/dev/null
    cat >"$haft_new" || haft_end '!space'
    [ $(($(wc -c <"$haft_new"))) = "$haft_size" ] || haft_end '!short'
    mv -f "$haft_new" "./$haft_leaf" 2>/dev/null || {
        [ ! -L "./$haft_leaf" ] && cat "$haft_new" >"./$haft_leaf"
    } || haft_end '!permission'
else
    [ -w "./$haft_leaf" ] || haft_end '!permission'
    cat >"./$haft_leaf" || haft_end '!space'
fi
haft_end 0
