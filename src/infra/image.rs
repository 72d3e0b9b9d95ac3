//! `configs set-image`: changes image tags in the table's text and leaves the rest of the text as it is.

use super::table::Table;
use crate::config::yaml::FileError;
use crate::config::{is_block, line_of};

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
    Table::parse(text.clone(), &table.file)?;
    Ok(text)
}

fn set(text: &str, table: &Table, path: &[&str], tag: &str) -> Result<String, FileError> {
    let key = [path, &["tag"]].concat();
    let fail = |path: &[&str]| {
        let why = format!("{} is not in block style", path.join("."));
        let at = line_of(text, path).map(|l| (l, 1));
        FileError { at, ..FileError::new(&table.file, why, "write it with one `key: value` per line") }
    };
    let mut lines: Vec<String> = text.split('\n').map(str::to_owned).collect();
    // A tag of digits would be parsed as a number.
    let tag =
        if tag.chars().all(|c| c.is_ascii_digit() || c == '.') { format!("\"{tag}\"") } else { tag.into() };
    if is_block(text, &key) {
        let line = line_of(text, &key).ok_or_else(|| fail(&key))? - 1;
        let old = &lines[line];
        let (head, rest) = old.split_once(':').ok_or_else(|| fail(&key))?;
        let comment = rest.find(" #").map_or("", |at| &rest[at..]);
        lines[line] = format!("{head}: {tag}{comment}");
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
    lines.insert(line, format!("{}tag: {tag}", " ".repeat(indent)));
    Ok(lines.join("\n"))
}
