# Replaces the file by the $haft_size bytes of standard input. Makes the directories that are missing
# on the way.
# They are judged before they are made, by the real name of the nearest directory that exists.
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
trap 'rm -f "$haft_new" "$haft_new.old"' EXIT
# What the system said of a failure, without the name of the program that failed.
haft_said() { haft_end "!system ${haft_why##*: }"; }
# Whether another file can be what this one is: it has no other names, and is not mounted by itself.
haft_alone() {
    [ -e "./$haft_leaf" ] || return 0
    [ -O "./$haft_leaf" ] || [ "$(id -u)" = 0 ] || return 1
    [ -z "$(find "./$haft_leaf" -links +1 2>/dev/null)" ] || return 1
    cp -p --preserve=xattr "./$haft_leaf" "$haft_new" 2>/dev/null || cp -p "./$haft_leaf" "$haft_new" 2>/dev/null
}
haft_fill() {
    haft_why=$( { cat >"$haft_new"; } 2>&1) || haft_said
    [ $(($(wc -c <"$haft_new"))) = "$haft_size" ] || haft_end '!short'
}
# The right to its directory is none to the file itself.
[ ! -e "./$haft_leaf" ] || [ -w "./$haft_leaf" ] || haft_end '!permission'
# A process that is reading the old file reads that file to its end, and no process sees half of a new
# file. Where a file cannot be put in its place it is written as it lies there, and what it
# held is put back where not all of it can be written.
if (set -C; : >"$haft_new") 2>/dev/null; then
    haft_alone && haft_whole=yes || haft_whole=
    haft_fill
    [ -n "$haft_whole" ] && mv -f "$haft_new" "./$haft_leaf" 2>/dev/null && haft_end 0
else
    [ -e "./$haft_leaf" ] || haft_end '!parent_permission'
    haft_new=$(mktemp) || haft_end '!permission'
    haft_fill
fi
[ ! -L "./$haft_leaf" ] || haft_end '!permission'
haft_why=$(cp "./$haft_leaf" "$haft_new.old" 2>&1) || haft_said
haft_why=$( { cat "$haft_new" >"./$haft_leaf"; } 2>&1) || {
    cat "$haft_new.old" >"./$haft_leaf"
    haft_said
}
haft_end 0
