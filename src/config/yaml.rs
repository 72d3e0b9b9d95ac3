//! Reads YAML files, with errors that have a position and a hint.

use super::locate::key_of;
use crate::model::text::printable;
use crate::model::without_passwords;
use serde_yaml::{Mapping, Value};
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Maximum size in bytes. A larger file is not a cluster or settings file.
const MAX_SIZE: u64 = 2 << 20;

/// An error in a file, with its position and hint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileError {
    pub file: PathBuf,
    /// Line and column from 1, when known.
    pub at: Option<(usize, usize)>,
    /// What is wrong.
    pub why: String,
    pub hint: String,
}

impl FileError {
    /// An error about the whole file.
    pub fn new(file: &Path, why: impl Into<String>, hint: impl Into<String>) -> Self {
        // The message may quote an invalid line that contains an address with a password.
        let why = without_passwords(&why.into()).into_owned();
        Self { file: file.into(), at: None, why, hint: hint.into() }
    }

    /// `FILE:LINE:COLUMN: what`.
    pub fn what(&self) -> String {
        let file = self.file.display();
        let what = match self.at {
            Some((line, column)) => format!("{file}:{line}:{column}: {}", self.why),
            None => format!("{file}: {}", self.why),
        };
        printable(&what).into_owned()
    }
}

impl std::fmt::Display for FileError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}; {}", self.what(), printable(&self.hint))
    }
}

impl std::error::Error for FileError {}

pub fn read(file: &Path) -> Result<String, FileError> {
    read_open(fs::File::open(file).map_err(|e| unreadable(file, &e))?, file)
}

pub(super) fn unreadable(file: &Path, e: &std::io::Error) -> FileError {
    FileError::new(file, format!("cannot be read: {e}"), "check that it exists and is readable")
}

/// The text of a file that is open.
pub(super) fn read_open(open: fs::File, file: &Path) -> Result<String, FileError> {
    let mut bytes = Vec::new();
    open.take(MAX_SIZE + 1).read_to_end(&mut bytes).map_err(|e| unreadable(file, &e))?;
    if bytes.len() as u64 > MAX_SIZE {
        return Err(FileError::new(
            file,
            "larger than 2 MB",
            "this is not a cluster file; move it to another directory",
        ));
    }
    String::from_utf8(bytes).map_err(|e| {
        let sound = String::from_utf8_lossy(&e.as_bytes()[..e.utf8_error().valid_up_to()]);
        let line = sound.matches('\n').count() + 1;
        FileError { at: Some((line, 1)), ..FileError::new(file, "not UTF-8 text", "save it as UTF-8") }
    })
}

/// Whether the text has nothing but comments.
pub(super) fn is_empty(text: &str) -> bool {
    text.lines().all(|line| line.trim().is_empty() || line.trim_start().starts_with('#'))
}

/// Parses the text into `T`, with merge keys (`<<`) applied as `PyYAML` and Ray do. A duplicate key is an error at
/// any level (YAML 1.2, section 3.2.1.3: keys are unique).
pub fn parse<T: serde::de::DeserializeOwned>(text: &str, file: &Path) -> Result<T, FileError> {
    if is_empty(text) {
        return Err(FileError::new(file, "empty", "fill it in or delete it"));
    }
    let fail = |e: &serde_yaml::Error| error(text, file, e);
    // Finds duplicate keys: a map in `T` would take the last of two.
    let value: Value = serde_yaml::from_str(text).map_err(|e| fail(&e))?;
    if !may_merge(text) {
        return serde_yaml::from_str(text).map_err(|e| fail(&e));
    }
    let value = merged(value).map_err(|why| FileError::new(file, why, "correct the `<<` key"))?;
    serde_yaml::from_value(value).map_err(|e| {
        // A value has no line numbers. Parse the text again to get the line, if that gives the same error.
        let in_text =
            serde_yaml::from_str::<T>(text).err().filter(|t| t.to_string().contains(&e.to_string()));
        fail(&in_text.unwrap_or(e))
    })
}

/// Converts an error of the library, with its position.
fn error(text: &str, file: &Path, e: &serde_yaml::Error) -> FileError {
    let at = e.location().map(|l| {
        let at = (l.line(), l.column());
        duplicate(text, &e.to_string(), at).unwrap_or_else(|| precise_position(text, &e.to_string(), at))
    });
    let tab = at
        .and_then(|(line, _)| text.lines().nth(line - 1))
        .is_some_and(|l| l.trim_start_matches(' ').starts_with('\t'));
    // The library repeats the position at the end of its sentence.
    let why = e.to_string();
    let why = why.split(" at line ").next().unwrap_or(&why);
    let hint = match at {
        _ if why.contains("duplicate ") => "remove one of the two",
        _ if tab => "indent this line with spaces: YAML does not allow tabs",
        Some(_) => "correct this line",
        None => "correct it",
    };
    FileError { at, ..FileError::new(file, why, hint) }
}

/// The position of the second of two duplicate keys; the library reports that of their mapping.
fn duplicate(text: &str, error: &str, at: (usize, usize)) -> Option<(usize, usize)> {
    let named =
        error.split_once("duplicate entry with key ").or_else(|| error.split_once("duplicate field "))?.1;
    let key = match named.chars().next()? {
        quote @ ('"' | '`') => named[1..].split(quote).next()?,
        _ => named.split(" at line ").next()?,
    };
    let indent = |line: &str| line.len() - line.trim_start_matches(' ').len();
    let is_text = |line: &str| !line.trim().is_empty() && !line.trim_start().starts_with('#');
    let lines: Vec<(usize, &str)> = text.lines().enumerate().skip(at.0.saturating_sub(1)).collect();
    let width = at.1.saturating_sub(1);
    let mapping =
        lines.iter().take_while(|(i, line)| i + 1 == at.0 || !is_text(line) || indent(line) >= width);
    let own = |(_, line): &&(usize, &str)| indent(line) == width && key_of(line.trim_start()) == Some(key);
    // The first key of a mapping in a list follows `- `.
    let head = lines.first().filter(|(_, line)| line.is_char_boundary(width.min(line.len())));
    let head =
        head.filter(|(_, line)| indent(line) < width && key_of(&line[width.min(line.len())..]) == Some(key));
    let second = head.into_iter().chain(mapping.filter(own)).nth(1).map(|(i, _)| (i + 1, width + 1));
    // In a flow mapping.
    second.or_else(|| {
        let (i, line) = lines.first()?;
        let is_key =
            |(at, _): &(usize, &str)| line[at + key.len()..].trim_start_matches(['"', '\'']).starts_with(':');
        line.match_indices(key).filter(is_key).nth(1).map(|(column, _)| (i + 1, column + 1))
    })
}

/// A more precise position for an invalid value, for which the library reports the position of its mapping: the first line
/// from there on that contains the value, which the error has in backticks.
fn precise_position(text: &str, error: &str, at: (usize, usize)) -> (usize, usize) {
    let Some(value) = error
        .split('`')
        .nth(1)
        .filter(|_| ["is not a host", "is not a color"].iter().any(|why| error.contains(why)))
    else {
        return at;
    };
    let mut lines = text.lines().enumerate().skip(at.0.saturating_sub(1));
    let found = lines.find_map(|(i, line)| Some((i + 1, line.find(value)? + 1)));
    found.filter(|_| !value.is_empty()).unwrap_or(at)
}

/// Whether the text may contain a merge key; a shell's `<<EOF` does not count.
fn may_merge(text: &str) -> bool {
    text.split("<<").skip(1).any(|rest| rest.trim_start_matches(['"', '\'']).trim_start().starts_with(':'))
}

/// Applies merge keys, the innermost first: a merged mapping may contain a merge key itself, which the library's
/// `apply_merge` does not handle. A mapping's own keys win; in a list the earlier mapping wins (`flatten_mapping` in
/// `constructor.py` of `PyYAML`).
fn merged(value: Value) -> Result<Value, &'static str> {
    match value {
        Value::Sequence(items) => items.into_iter().map(merged).collect(),
        Value::Tagged(mut tagged) => {
            tagged.value = merged(tagged.value)?;
            Ok(Value::Tagged(tagged))
        }
        Value::Mapping(entries) => {
            let (mut all, mut own) = (Mapping::new(), Mapping::new());
            for (key, value) in entries {
                let value = merged(value)?;
                if key != "<<" {
                    own.insert(key, value);
                    continue;
                }
                let from = match value {
                    Value::Sequence(items) => items,
                    one => vec![one],
                };
                for one in from.into_iter().rev() {
                    let Value::Mapping(one) = one else {
                        return Err("`<<` needs a mapping of `key: value`");
                    };
                    all.extend(one);
                }
            }
            all.extend(own);
            Ok(Value::Mapping(all))
        }
        other => Ok(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    #[derive(Debug, Deserialize)]
    struct One {
        #[expect(dead_code, reason = "only read")]
        a: u32,
    }

    fn value(text: &str) -> Value {
        parse(text, Path::new("c.yaml")).unwrap()
    }

    #[test]
    fn merged_mappings_can_merge_others_and_own_keys_win() {
        let text = "a: &a {x: 1, y: 1, z: 1}\nb: &b {<<: *a, y: 2}\nc: {<<: *b, z: 3}\n\
                    list: [{<<: *b}]\ntagged: !t {<<: *a}\n";
        let value = value(text);
        let [x, y, z] = ["x", "y", "z"].map(|key| value["c"][key].as_u64());
        assert_eq!((x, y, z), (Some(1), Some(2), Some(3)));
        assert_eq!((&value["list"][0]["x"], &value["list"][0]["y"]), (&1.into(), &2.into()));
        let Value::Tagged(tagged) = &value["tagged"] else { panic!("{value:?}") };
        assert_eq!(tagged.value["z"], 1);
        assert!(value["c"].get("<<").is_none());
    }

    #[test]
    fn in_a_list_the_earlier_mapping_wins() {
        let text = "- &a {x: 1}\n- &b {x: 2, y: 2}\n- {y: 3, <<: [*a, *b], z: 3}\n- {'<<' : [*b, *a]}\n";
        let value = value(text);
        let [x, y, z] = ["x", "y", "z"].map(|key| value[2][key].as_u64());
        assert_eq!((x, y, z), (Some(1), Some(3), Some(3)));
        assert_eq!(value[3]["x"], 2);
    }

    #[test]
    fn an_invalid_merge_is_an_error() {
        for text in ["x: {<<: 1}", "x: {<<: [1]}", "x: {<<: [[{a: 1}]]}", "x: {<<: }"] {
            let error = parse::<Value>(text, Path::new("c.yaml")).unwrap_err();
            assert_eq!(error.what(), "c.yaml: `<<` needs a mapping of `key: value`", "{text}");
        }
    }

    #[test]
    fn a_duplicate_key_is_reported_at_its_second_place() {
        for (text, at) in [
            ("a: 1\nb: 2\na: 3\n", (3, 1)),
            ("# x\n\nx:\n  a: {a: 1}\n  # a: 0\n  b:\n    a: 2\n\n  a: 3\n", (9, 3)),
            ("x:\n  b: 1\ny:\n  - c: 1\n    d: 2\n    c: 3\n", (6, 5)),
            ("x: {a: 1, 'b': 2, a: 3}\n", (1, 19)),
            ("x:\n  \"a b\": 1\n  'a b': 2\n", (3, 3)),
            ("x:\n  3: 1\n  3: 2\n", (3, 3)),
            ("x: &x\n  a: 1\ny:\n  <<: *x\n  b: 2\n  b: 3\n", (6, 3)),
        ] {
            let error = parse::<Value>(text, Path::new("c.yaml")).unwrap_err();
            assert_eq!(error.at, Some(at), "{text}: {error}");
            assert_eq!(error.hint, "remove one of the two", "{error}");
        }
        let error = parse::<One>("a: 1\n\na: 2\n", Path::new("c.yaml")).unwrap_err();
        assert_eq!(error.at, Some((3, 1)), "{error}");
    }

    #[test]
    fn errors_keep_their_line_beside_merge_keys() {
        #[derive(Debug, Deserialize)]
        struct File {
            #[expect(dead_code, reason = "only read")]
            max_workers: u32,
        }
        let wrong = |text: &str| parse::<File>(text, Path::new("c.yaml")).unwrap_err();
        assert_eq!(wrong("x: &x {a: 1}\ny: {<<: *x}\nmax_workers: many\n").at.unwrap().0, 3);
        assert_eq!(wrong("setup: 'cat <<EOF'\nmax_workers: many\n").at.unwrap().0, 2);
        let by_merge = wrong("x: &x {max_workers: many}\n<<: *x\n");
        assert!(by_merge.at.is_none() && by_merge.why.contains("many"), "{by_merge}");
    }
}
