# Prints a part of the file that $haft_path means, and says how long the whole is.
haft_reach
haft_judge
if [ -d "./$haft_leaf" ]; then haft_end '!folder'; fi
[ -e "./$haft_leaf" ] || haft_end '!missing'
[ -f "./$haft_leaf" ] || haft_end '!special'
[ -r "./$haft_leaf" ] || haft_end '!permission'
haft_size=$(($(wc -c <"./$haft_leaf")))
if [ "$haft_offset" = 0 ]; then
    head -c "$haft_limit" <"./$haft_leaf"
else
    tail -c "+$((haft_offset + 1))" <"./$haft_leaf" | head -c "$haft_limit"
fi
haft_end 0 "$haft_size"
