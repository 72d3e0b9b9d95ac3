//! The scripts that read a log file on its machine, for a POSIX `sh` with the programs of GNU or `BusyBox`. Each runs
//! after [`OPEN`].

/// `FILE INODE`: opens the file of this name as descriptor 3; if its inode differs from the given one, the rotated file
/// with that inode, such as `monitor.log.1` (Python's handlers) or `raylet.1.out` (spdlog). Sets `$1` and `$2` to the
/// inode and the size of the open file.
pub const OPEN: &str = r#"n=$1 i=$2 f=$1 o=$3 c=$4 x=$5
id() { stat -Lc '%i %s' "$1" 2>/dev/null || { [ -r "$1" ] && set -- "$1" $(ls -Li "$1") && echo "$2 $(($(wc -c <"$1")))"; }; }
for p in head tail; do command -v $p >/dev/null || { echo "$p: no such program" >&2; exit 127; }; done
[ -d "${f%/*}" ] || exit 83
[ -e "$f" ] || exit 80
[ -f "$f" ] || exit 84
[ -r "$f" ] || exit 85
set -- $(id "$f")
if [ "$i" ] && [ "$1" != "$i" ]; then
  for g in "${f%.*}".*; do
    set -- $(id "$g")
    if [ "$1" = "$i" ]; then f=$g; break; fi
  done
fi
exec 3<"$f" || exit 80
set -- $(id /dev/fd/3)
"#;

/// `FILE INODE FROM`: prints a line with the inode, the size, and the position of the first byte that follows, and then
/// the file from there on as it grows. `FROM` is a position; without an inode it can also be `c` and a number of bytes,
/// or `n` and a number of lines, before the end. Then one more byte is printed, so that everything after the first line
/// break is complete. A file with another inode is printed from its beginning.
///
/// `tail -F` would not report where another file begins. Each `cat` continues where the previous one ended, because
/// both read descriptor 3, so the position after the last byte printed is always known. Exits with 81 if the file was
/// replaced and nothing was appended to the old one for a while, with 89 if a rotated file (`FILE.1`, `.1` before the
/// extension, or a date after the name) is newer than the old one, because the log was rotated more than once, and with
/// 82 if it was truncated.
pub const FOLLOW: &str = r#"if [ "$i" ] && [ "$1" != "$i" ]; then o=0; fi
case $o in
  c*) s=$(($2 - ${o#c} - 1)) ;;
  n*) s=$(($2 - $(tail -n "${o#n}" "$f" | wc -c) - 1)) ;;
  *) s=$o ;;
esac
if [ "$s" -lt 0 ] || [ "$s" -gt "$2" ]; then s=0; fi
echo "$1 $2 $s"
dd bs=1 skip="$s" count=0 <&3 2>/dev/null
l=$s r=0
while :; do
  set -- $(id /dev/fd/3)
  [ "$2" -ge "$l" ] || exit 82
  if [ "$2" -gt "$l" ]; then
    cat <&3 || exit
    l=$2 r=0
  else
    if [ -e "$n" ] && ! [ "$n" -ef /dev/fd/3 ]; then r=$((r + 1)); fi
    if [ "$r" -ge 4 ]; then
      for g in "$n.1" "${n%.*}.1.${n##*.}" "$n"[-.]20*[0-9]; do
        if [ "$g" -nt /dev/fd/3 ] && ! [ "$g" -ef /dev/fd/3 ]; then exit 89; fi
      done
      exit 81
    fi
    sleep 0.3 2>/dev/null || sleep 1
  fi
done"#;

/// `FILE INODE FROM COUNT`: prints so many bytes of the file from a position on.
pub const PART: &str = r#"[ "$1" = "$i" ] || exit 81
tail -c "+$((o + 1))" "$f" | head -c "$c""#;

/// Shared by the two searches below. `FILE INODE PART EXPRESSION DRAWN`: extended regular expressions; the second is
/// for lines with control sequences or carriage returns. It is slower, and used only if there are any after the first
/// byte that is searched. `PART` is a locale; `i` to ignore case or else `x`; the first byte, or `n` and a number of
/// lines before the end; and the end: a position, `line` for the position after the last line break, or `all`. Binary
/// bytes count as text (`-a`), because logs may contain some. Exits with 81 if the file with this inode is gone, and
/// with 86 if every second one of its last bytes is a NUL, as in UTF-16.
pub const GREP: &str = r#"d=$1 s=$2 g= t=512 w=0
if [ "$i" ] && [ "$d" != "$i" ]; then exit 81; fi
[ "$s" -ge "$t" ] || t=$s
[ $(($(tail -c "$t" "$f" | tr -cd '\000' | wc -c) * 3)) -le "$t" ] || exit 86
set -- $o
l=$1 b=$3 e=$4
[ "$2" = x ] || g=-i
look() {
  if { dd bs=1 skip="$b" count=0 2>/dev/null; LC_ALL=C grep -qa "$(printf '[\033\r]')"; } <"$f"; then c=$x w=1; fi
}
found() { LC_ALL=$l grep -a $g -E "$@" -e "$c"; }
"#;

/// Prints `NUMBER:POSITION:LINE` for the last matching lines, each cut, and then grep's exit status. For the part `all`
/// of the file.
pub const SEARCH: &str = r#"look
{ found -n -b <&3; echo "status $?"; } | LC_ALL=C cut -b 1-1000 | tail -n 2002"#;

/// Prints a line with the inode, the position after the part that is searched, the position of its first byte, and 1 if
/// the second expression was used, and then the matching lines.
pub const MATCHED: &str = r#"case $e in
  line)
    e=$s k=65536
    if [ "$s" -gt 0 ] && [ "$(tail -c "+$s" "$f" | head -c 1 | wc -l)" -eq 0 ]; then
      while :; do
        [ "$k" -lt "$s" ] || k=$s
        r=$(tail -c "+$((s - k + 1))" "$f" | head -c "$k" | tail -n 1 | wc -c)
        if [ "$r" -lt "$k" ] || [ "$k" -eq "$s" ]; then break; fi
        k=$((k * 16))
      done
      e=$((s - r))
    fi ;;
  all) e=$s ;;
esac
case $b in n*) b=$((e - $(head -c "$e" "$f" | tail -n "${b#n}" | wc -c))) ;; esac
[ "$b" -le "$e" ] || b=$e
look
echo "$d $e $b $w"
dd bs=1 skip="$b" count=0 <&3 2>/dev/null
head -c "$((e - b))" <&3 | found
s=$?
[ $s -le 1 ] || exit $s"#;

/// `FILE`: prints a line with the inode, the size, and 0.
pub const STAT: &str = r#"echo "$1 $2 0""#;

/// `FILE INODE FROM`: prints the file from a position on.
pub const REST: &str = r#"if [ "$i" ] && [ "$1" != "$i" ]; then exit 81; fi
dd bs=1 skip="$o" count=0 <&3 2>/dev/null
cat <&3"#;

/// `FILE - PARTS COUNT`: prints so many bytes at the beginning of each of so many equal parts of the file, each after a
/// line with a record separator.
pub const SAMPLES: &str = r#"p=0
while [ "$p" -lt "$o" ]; do
  printf '\n\036\n'
  tail -c "+$(($2 / o * p + 1))" "$f" | head -c "$c"
  p=$((p + 1))
done"#;

/// `FILE LINES`: prints the last lines of the file.
pub const LAST: &str = r#"tail -n "$i" "$f""#;

/// `FOLDER LOCALE CASE MOST LONGEST EXPRESSION DRAWN GLOB...`, without [`OPEN`]: searches the files of the directory
/// that match a glob. Locale, case and expressions are as above. For each file it prints a line with a record
/// separator, 0 or why the file was not searched (a code of [`OPEN`] or [`GREP`], 90 if it is compressed, or grep's
/// exit status), the number of matching lines, and the file's name; then `NUMBER:POSITION:LINE` for the last of these
/// lines, each cut. The output ends with a line with a record separator and `end`. Exits with 83 if there is no such
/// directory, and with 87 if grep does not print positions.
pub const SEVERAL: &str = r#"d=$1 l=$2 g= m=$4 b=$5 p=$6 x=$7 r=$(printf '[\033\r]')
[ "$3" = x ] || g=-i
shift 7
for c in grep tail cut tr wc; do command -v $c >/dev/null || { echo "$c: no such program" >&2; exit 127; }; done
[ -d "$d" ] || exit 83
echo x | grep -a -n -b -E -e x >/dev/null 2>&1 || exit 87
IFS=
for w in "$@"; do
  for f in "$d"/$w; do
    [ -f "$f" ] || continue
    n=${f##*/} s=0 c=0 e=$p
    case $n in *.gz | *.xz | *.zst | *.bz2) s=90 ;; esac
    if [ "$s" -gt 0 ]; then
      :
    elif ! [ -r "$f" ]; then
      s=85
    elif [ -s "$f" ]; then
      t=$(tail -c 512 "$f" | wc -c) z=$(tail -c 512 "$f" | tr -cd '\000' | wc -c)
      if [ $((z * 3)) -gt $((t)) ]; then
        s=86
      else
        ! LC_ALL=C grep -qa "$r" "$f" || e=$x
        c=$(LC_ALL=$l grep -a $g -c -E -e "$e" <"$f") || s=$?
        [ "$s" -gt 1 ] || s=0
      fi
    fi
    printf '\036%s %s %s\n' "$s" "${c:-0}" "$n"
    [ "$s" -gt 0 ] || [ "${c:-0}" -eq 0 ] || LC_ALL=$l grep -a $g -n -b -E -e "$e" <"$f" | tail -n "$m" | LC_ALL=C cut -b "1-$b"
  done
done
printf '\036end\n'"#;

/// `FOLDER LINES`, and for each file `NAME INODE FROM`, without [`OPEN`]: follows files of the directory together. A
/// file begins at this byte of this inode; without an inode at the byte before its last lines, or at its first byte if
/// it appears later. Prints lines that begin with a record separator, with files numbered from 1: `b FILE INODE FROM
/// COUNT` before so many bytes; `r FILE` if its name refers to another file now, which follows; before that `l FILE` if
/// the previous file is gone, with the bytes that were not read, or `s FILE` if there is a rotated file between the two;
/// `t FILE` if it was truncated; `n FILE CODE` if it cannot be read at the moment (a code of [`OPEN`]); and `.` after
/// each round over all files.
///
/// One `stat` checks all files, twice a second. While the output is not read, its results wait in a pipe: if the name
/// refers to another file by then, or the file is shorter, nothing is printed, because a later result shows the
/// change. If a file is truncated while it is printed, the missing bytes are printed as NULs, so that the count remains
/// correct. At most 4 MiB of a file are printed per round, so that no file delays the others. Exits with 83 if there is
/// no such directory, and with 88 if `stat` does not support formats.
pub const FOLLOW_SEVERAL: &str = r#"d=$1 k=$2 n=0 j=0
shift 2
for c in stat tail head wc; do command -v $c >/dev/null || { echo "$c: no such program" >&2; exit 127; }; done
[ -d "$d" ] || exit 83
stat -Lc '%i %s %n' "$d" >/dev/null 2>&1 || exit 88
while [ $# -ge 3 ]; do
  n=$((n + 1))
  eval "f$n=\$d/\$1 i$n=\$2 p$n=\$3 c$n="
  shift 3
done
while [ "$j" -lt "$n" ]; do
  j=$((j + 1))
  eval "set -- \"\$@\" \"\$f$j\""
done
report() {
  eval "c=\$c$1"
  [ "$c" = "$2" ] || printf '\036n %s %s\n' "$1" "$2"
  eval "c$1=$2"
}
send() {
  c=$(($2 - p))
  [ "$c" -le 4194304 ] || c=4194304
  {
    e=$(stat -Lc '%i %s' /dev/fd/3) && [ "${e% *}" = "$o" ] && [ "${e#* }" -ge "$2" ] || return 1
    printf '\036b %s %s %s %s\n' "$j" "$o" "$p" "$c"
    { tail -c "+$((p + 1))" <&3 | head -c "$c"; head -c "$c" /dev/zero; } | head -c "$c"
    p=$((p + c))
  } 2>/dev/null 3<"$1"
}
while :; do
  stat -Lc '%i %s %n' "$@" 2>/dev/null
  echo .
  sleep 0.5 2>/dev/null || sleep 1
done | {
  first=1 j=0
  while read -r i s f; do
    while [ "$j" -lt "$n" ]; do
      j=$((j + 1))
      eval "g=\$f$j o=\$i$j p=\$p$j"
      [ "$i" != . ] && [ "$f" = "$g" ] && break
      report "$j" 80
    done
    if [ "$i" = . ]; then
      printf '\036.\n'
      first= j=0
      continue
    fi
    [ -f "$f" ] || { report "$j" 84; continue; }
    [ -r "$f" ] || { report "$j" 85; continue; }
    eval "c$j="
    if [ -z "$o" ]; then
      o=$i p=0
      [ -z "$first" ] || p=$((s - $(tail -n "$k" "$f" | wc -c) - 1))
      [ "$p" -ge 0 ] || p=0
    elif [ "$i" != "$o" ]; then
      m=l
      for g in "${f%.*}".*; do
        set -- $(stat -Lc '%i %s' "$g" 2>/dev/null)
        [ "${1-}" = "$o" ] && [ -r "$g" ] || continue
        m=
        while [ "$2" -gt "$p" ]; do send "$g" "$2" || { m=r; break 2; }; done
        for h in "$f.1" "${f%.*}.1.${f##*.}" "$f"[-.]20*[0-9]; do
          # The file may have been replaced again since this line was written: what it was then is printed next.
          if [ "$h" -nt "$g" ] && ! [ "$h" -ef "$g" ] && [ "$(stat -Lc %i "$f" 2>/dev/null)" = "$i" ]; then m=s; fi
        done
        break
      done
      if [ "$m" = r ]; then
        eval "p$j=$p"
        continue
      fi
      [ -z "$m" ] || printf '\036%s %s\n' "$m" "$j"
      printf '\036r %s\n' "$j"
      o=$i p=0
    elif [ "$s" -lt "$p" ]; then
      printf '\036t %s\n' "$j"
      p=0
    fi
    [ "$s" -le "$p" ] || send "$f" "$s"
    eval "i$j=$o p$j=$p"
  done
}"#;
