# Puts what comes on standard input, $haft_size bytes, in the place of the file.
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
