//! `configs set-image`: changes image tags in the table's text and keeps the rest of the text unchanged.

use super::table::Table;
use crate::config::yaml::FileError;
use crate::config::{is_block, line_of};
use serde_yaml::Value;

/// The table's text with that image tag: for the named clusters (by file name), or, when none is named, for all that
/// do not have their own. The tag of a named cluster is written into the cluster's own entry.
pub fn with_tag(table: &Table, tag: &str, stems: &[String]) -> Result<String, FileError> {
    let mut text = table.text.clone();
    if stems.is_empty() {
        text = set(&text, table, &["defaults"], tag)?;
    }
    for stem in stems {
        text = set(&text, table, &["clusters", stem], tag)?;
    }
    // The result is parsed before it is written.
    let changed = Table::parse(text.clone(), &table.file)?;
    let other = changed.rows.iter().find(|r| stems.contains(&r.stem) && r.text("tag") != tag);
    match other {
        None => Ok(text),
        Some(row) => {
            let at = line_of(&text, &["clusters", &row.stem, "tag"]).map(|line| (line, 1));
            let why = format!("cannot change the tag of {}: it is not a plain value on one line", row.stem);
            Err(FileError { at, ..FileError::new(&table.file, why, "write it as `tag: VALUE`") })
        }
    }
}

fn set(text: &str, table: &Table, path: &[&str], tag: &str) -> Result<String, FileError> {
    let key = [path, &["tag"]].concat();
    let fail = |path: &[&str]| {
        let why = format!("{} is not in block style", path.join("."));
        let at = line_of(text, path).map(|l| (l, 1));
        FileError { at, ..FileError::new(&table.file, why, "write it with one `key: value` per line") }
    };
    let mut lines: Vec<String> = text.split('\n').map(str::to_owned).collect();
    let tag = scalar(tag);
    if is_block(text, &key) {
        let line = line_of(text, &key).ok_or_else(|| fail(&key))? - 1;
        let (old, end) = split_cr(&lines[line]);
        let (head, rest) = old.split_once(':').ok_or_else(|| fail(&key))?;
        let comment = rest.find(" #").map_or("", |at| &rest[at..]);
        // An anchor is kept: an alias elsewhere may refer to it.
        let anchor = rest.split_whitespace().find(|word| word.starts_with('&'));
        let anchor = anchor.map_or_else(String::new, |name| format!("{name} "));
        lines[line] = format!("{head}: {anchor}{tag}{comment}{end}");
        return Ok(lines.join("\n"));
    }
    if !is_block(text, path) {
        return Err(fail(path));
    }
    let line = line_of(text, path).ok_or_else(|| fail(path))?;
    // The indentation is that of the first key.
    let indented = |l: &&String| !l.trim().is_empty() && !l.trim_start().starts_with('#');
    let first = lines.iter().skip(line).find(indented).ok_or_else(|| fail(path))?;
    let indent = first.len() - first.trim_start().len();
    let parent = lines[line - 1].len() - lines[line - 1].trim_start().len();
    if indent <= parent {
        return Err(fail(path));
    }
    let (_, end) = split_cr(&lines[line - 1]);
    let added = format!("{}tag: {tag}{end}", " ".repeat(indent));
    lines.insert(line, added);
    Ok(lines.join("\n"))
}

/// A line without its trailing `\r`, and that `\r`, which a file with Windows line ends has.
fn split_cr(line: &str) -> (&str, &str) {
    line.strip_suffix('\r').map_or((line, ""), |line| (line, "\r"))
}

/// The tag as a YAML scalar, in quotes if it would not be read as a string otherwise: `1e5` and `0x10` are numbers,
/// `null` is null, and to Ray's parser (YAML 1.1) `no` is false and `2026-11-20` a date.
fn scalar(tag: &str) -> String {
    let is_word = tag.starts_with(|c: char| c.is_ascii_alphabetic());
    let is_bool = ["y", "yes", "n", "no", "on", "off"].iter().any(|word| word.eq_ignore_ascii_case(tag));
    let is_text = serde_yaml::from_str::<Value>(tag).is_ok_and(|v| v.as_str() == Some(tag));
    if is_word && is_text && !is_bool { tag.to_owned() } else { format!("\"{tag}\"") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::path::Path;

    const TABLE: &str = "defaults: {project: p, template: t, image: i, token_secret: s, bucket: b, zone: z-a, tpu: v4}\n\
        generations:\n  v4: {accelerator: v4, runtime_version: r, cores_per_chip: 2, chips_per_host: 4, base: 8, zones: [z-a]}\n\
        clusters:\n  one:\n    tag: &tag latest # all of them\n  two:\n    tag: *tag\n  three:\n    # its own\n    tag: 'a'\n";

    fn table(text: &str) -> Table {
        Table::parse(text.to_owned(), Path::new("clusters.yaml")).unwrap()
    }

    /// The tag of each cluster in the text of a table.
    fn tags(text: &str) -> Vec<String> {
        table(text).rows.iter().map(|row| row.text("tag").to_owned()).collect()
    }

    #[test]
    fn anchors_comments_and_line_ends_are_kept() {
        let stems = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
        let set = with_tag(&table(TABLE), "1e5", &stems(&["one"])).unwrap();
        assert_eq!(set, TABLE.replace("&tag latest #", "&tag \"1e5\" #"));
        assert_eq!(tags(&set), ["1e5", "1e5", "a"]);
        let set = with_tag(&table(TABLE), "b", &stems(&["two"])).unwrap();
        assert_eq!((tags(&set), set), (stems(&["latest", "b", "a"]), TABLE.replace("*tag", "b")));

        let windows =
            TABLE.replace("    # its own\n    tag: 'a'\n", "    min_workers: 1\n").replace('\n', "\r\n");
        let windows = windows.replace("zone: z-a,", "zone: z-a, tag: c,");
        let set = with_tag(&table(&windows), "0x10", &stems(&["one", "three"])).unwrap();
        assert_eq!(tags(&set), ["0x10", "0x10", "0x10"]);
        assert_eq!(set.matches('\n').count(), set.matches("\r\n").count(), "{set:?}");
        assert_eq!(set.lines().count(), windows.lines().count() + 1);
    }

    proptest! {
        #[test]
        fn any_tag_is_read_back_unchanged(tag in "[A-Za-z0-9_][A-Za-z0-9_.-]{0,12}") {
            let set = with_tag(&table(TABLE), &tag, &["three".to_owned()]).unwrap();
            prop_assert_eq!(&tags(&set)[2], &tag);
        }

        #[test]
        fn numbers_dates_and_yaml_keywords_are_quoted(tag in "[0-9]{1,4}|0[xob][0-9a-f]{1,4}|[0-9]{1,2}e[0-9]{1,2}|1_0|2026-11-20|true|No|off|null|_x|1\\.5") {
            let set = with_tag(&table(TABLE), &tag, &["three".to_owned()]).unwrap();
            prop_assert_eq!(&tags(&set)[2], &tag);
            let is_quoted = set.contains(&format!("tag: \"{tag}\""));
            prop_assert!(is_quoted, "{}", set);
        }
    }
}
