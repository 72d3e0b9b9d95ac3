while read -r x; do date +%s.%N; done
