//! `clusters.yaml`: defines every cluster. Keys that a cluster leaves out come from `defaults` or are derived.

use super::generation::{Generation, WorkerType};
use crate::config::line_of;
use crate::config::{nearest, yaml, yaml::FileError};
use crate::model::sort;
use crate::model::without_first_word;
use serde_yaml::{Mapping, Value};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The table's file name.
pub const FILE: &str = "clusters.yaml";

/// The type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// A name that Google Cloud and Docker accept, and that needs no quoting in YAML and in a shell.
    Name,
    /// A Docker tag: a name that may also begin with `_`.
    Tag,
    /// A whole number.
    Count,
    /// Slice targets by type.
    Slices,
}

/// The keys that a cluster may have, in the order in which they are shown.
const KEYS: [(&str, Kind); 13] = [
    ("cluster_name", Kind::Name),
    ("template", Kind::Name),
    ("project", Kind::Name),
    ("zone", Kind::Name),
    ("region", Kind::Name),
    ("bucket", Kind::Name),
    ("image", Kind::Name),
    ("tag", Kind::Tag),
    ("token_secret", Kind::Name),
    ("tpu", Kind::Name),
    ("min_workers", Kind::Count),
    ("max_workers", Kind::Count),
    ("slices", Kind::Slices),
];

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// The cluster's own entry, on that line.
    Cluster(usize),
    /// `defaults`, on that line.
    Defaults(usize),
    /// Derived from other values.
    Derived(&'static str),
}

/// A cluster's value and where it comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sourced {
    pub key: &'static str,
    pub value: Value,
    /// Where it comes from.
    pub source: Source,
}

/// One cluster of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Name of its file, without `.yaml`.
    pub stem: String,
    /// Line of its entry.
    pub line: usize,
    /// Its values, in the order of the keys.
    pub values: Vec<Sourced>,
    pub types: Vec<WorkerType>,
}

impl Row {
    /// A text value; empty when there is none.
    pub fn text(&self, key: &str) -> &str {
        self.value(key).and_then(Value::as_str).unwrap_or_default()
    }

    /// A whole number; 0 when there is none.
    pub fn count(&self, key: &str) -> u32 {
        self.value(key).and_then(count).unwrap_or_default()
    }

    /// Its slice targets.
    pub fn slices(&self) -> BTreeMap<String, u32> {
        self.value("slices").map(targets).unwrap_or_default()
    }

    /// The container image without its registry.
    pub fn image(&self) -> String {
        format!("{}:{}", self.text("image"), self.text("tag"))
    }

    fn value(&self, key: &str) -> Option<&Value> {
        self.values.iter().find(|v| v.key == key).map(|v| &v.value)
    }
}

#[derive(Clone, Debug)]
pub struct Table {
    pub file: PathBuf,
    pub text: String,
    /// TPU generations by name.
    pub generations: BTreeMap<String, Generation>,
    /// The region of each bucket.
    pub buckets: BTreeMap<String, String>,
    /// Clusters in the order of the file.
    pub rows: Vec<Row>,
}

impl Table {
    /// Reads the table of a directory.
    pub fn read(folder: &Path) -> Result<Self, FileError> {
        let file = folder.join(FILE);
        let text = yaml::read(&file)?;
        Self::parse(text, &file)
    }

    /// Parses a table.
    pub fn parse(text: String, file: &Path) -> Result<Self, FileError> {
        let root: Value = yaml::parse(&text, file)?;
        let reader = Reader { text: &text, file };
        let root = reader.mapping(&root, &[])?;
        reader.known(root, &[], &["defaults", "generations", "buckets", "clusters"])?;
        let generations: BTreeMap<String, Generation> = reader.section(root, "generations")?;
        let buckets = reader.section(root, "buckets")?;
        let defaults = match root.get("defaults") {
            Some(value) => reader.values(value, &["defaults"])?,
            None => BTreeMap::new(),
        };
        let clusters = root.get("clusters").ok_or_else(|| {
            FileError::new(file, "has no `clusters`", "list them under `clusters:`, each by its file name")
        })?;
        let mut rows = Vec::new();
        for (stem, value) in reader.mapping(clusters, &["clusters"])? {
            let stem = stem.as_str().unwrap_or_default();
            rows.push(reader.row(stem, value, &defaults, &generations)?);
        }
        reader.distinct(&rows)?;
        Ok(Self { file: file.into(), generations, buckets, rows, text })
    }

    /// The cluster with this file name or `cluster_name`, also without its first word.
    pub fn find(&self, name: &str) -> Option<&Row> {
        let is = |own: &str| own == name || without_first_word(own) == name;
        self.rows
            .iter()
            .find(|r| is(&r.stem))
            .or_else(|| self.rows.iter().find(|r| is(r.text("cluster_name"))))
    }
}

struct Reader<'a> {
    text: &'a str,
    file: &'a Path,
}

impl Reader<'_> {
    fn error(&self, path: &[&str], why: impl Into<String>, hint: impl Into<String>) -> FileError {
        let at = line_of(self.text, path).map(|line| (line, 1));
        FileError { at, ..FileError::new(self.file, why, hint) }
    }

    fn mapping<'v>(&self, value: &'v Value, path: &[&str]) -> Result<&'v Mapping, FileError> {
        let what = path.last().unwrap_or(&"the file");
        let fail =
            || self.error(path, format!("{what} is not a `key: value` mapping"), "write one key per line");
        value.as_mapping().ok_or_else(fail)
    }

    /// Refuses unknown keys.
    fn known(&self, map: &Mapping, path: &[&str], known: &[&str]) -> Result<(), FileError> {
        for key in map.keys() {
            let key = key.as_str().unwrap_or_default();
            if !known.contains(&key) {
                let near = nearest(key, known.iter().copied());
                let near = near.map_or_else(|| "remove it".into(), |n| format!("did you mean `{n}`?"));
                return Err(self.error(&[path, &[key]].concat(), format!("unknown key `{key}`"), near));
            }
        }
        Ok(())
    }

    /// Parses a section entry by entry, so that an error names the entry.
    fn section<T: serde::de::DeserializeOwned>(
        &self,
        root: &Mapping,
        name: &str,
    ) -> Result<BTreeMap<String, T>, FileError> {
        let Some(section) = root.get(name) else { return Ok(BTreeMap::new()) };
        let mut all = BTreeMap::new();
        for (key, value) in self.mapping(section, &[name])? {
            let key = key.as_str().unwrap_or_default();
            let value = serde_yaml::from_value(value.clone());
            let value =
                value.map_err(|e| self.error(&[name, key], format!("{name}.{key}: {e}"), "correct it"))?;
            all.insert(key.to_owned(), value);
        }
        Ok(all)
    }

    /// The values of one entry, each checked.
    fn values(
        &self,
        entry: &Value,
        path: &[&str],
    ) -> Result<BTreeMap<&'static str, (Value, usize)>, FileError> {
        let map = self.mapping(entry, path)?;
        self.known(map, path, &KEYS.map(|(key, _)| key))?;
        let mut values = BTreeMap::new();
        for (key, kind) in KEYS {
            let Some(value) = map.get(key) else { continue };
            let path = [path, &[key]].concat();
            let wanted = match kind {
                Kind::Name if value.as_str().is_some_and(is_name) => None,
                Kind::Tag
                    if value.as_str().is_some_and(|tag| {
                        tag.starts_with('_') && is_name(&format!("x{tag}")) || is_name(tag)
                    }) =>
                {
                    None
                }
                Kind::Name | Kind::Tag => {
                    Some("a name of letters, digits, . _ and - (in quotes if it is a number)")
                }
                Kind::Count if count(value).is_some() => None,
                Kind::Count => Some("a whole number"),
                Kind::Slices if value.as_mapping().is_some_and(|m| targets(value).len() == m.len()) => None,
                Kind::Slices => Some("slices by type, e.g. {v5p-64: 4}"),
            };
            if let Some(wanted) = wanted {
                let why = format!("`{}` is not valid", path.join("."));
                return Err(self.error(&path, why, format!("write {wanted}")));
            }
            let line = line_of(self.text, &path).unwrap_or(1);
            values.insert(key, (value.clone(), line));
        }
        Ok(values)
    }

    fn row(
        &self,
        stem: &str,
        entry: &Value,
        defaults: &BTreeMap<&'static str, (Value, usize)>,
        generations: &BTreeMap<String, Generation>,
    ) -> Result<Row, FileError> {
        let path = ["clusters", stem];
        if !is_name(stem) || stem.contains("template") {
            let hint = "it is used as a file name: use letters, digits, . _ and -, but not `template`";
            return Err(self.error(&path, format!("`{stem}` is not valid as a cluster file name"), hint));
        }
        let own = self.values(entry, &path)?;
        let mut values = Vec::new();
        for (key, _) in KEYS {
            let given = |from: &BTreeMap<&'static str, (Value, usize)>| from.get(key).cloned();
            let (value, source) = if let Some((value, line)) = given(&own) {
                (value, Source::Cluster(line))
            } else if let Some((value, line)) = given(defaults) {
                (value, Source::Defaults(line))
            } else if let Some((value, how)) = derived(key, stem, &values) {
                (value, Source::Derived(how))
            } else {
                let hint = format!("add `{key}:` to it or to `defaults`");
                return Err(self.error(&path, format!("{stem} has no `{key}`"), hint));
            };
            values.push(Sourced { key, value, source });
        }
        let mut row = Row {
            stem: stem.into(),
            line: line_of(self.text, &path).unwrap_or(1),
            values,
            types: Vec::new(),
        };
        row.types = self.types(&row, generations)?;
        Ok(row)
    }

    fn types(
        &self,
        row: &Row,
        generations: &BTreeMap<String, Generation>,
    ) -> Result<Vec<WorkerType>, FileError> {
        let (tpu, slices) = (row.text("tpu"), row.slices());
        let Some(generation) = generations.get(tpu) else {
            let near = nearest(tpu, generations.keys().map(String::as_str));
            let hint =
                near.map_or_else(|| "add it to `generations`".into(), |n| format!("did you mean `{n}`?"));
            let path = ["clusters", &row.stem, "tpu"];
            return Err(self.error(&path, format!("{} has unknown TPU generation `{tpu}`", row.stem), hint));
        };
        if let Some(target) = slices.keys().find(|t| !generation.has_slice(tpu, t)) {
            let sizes: Vec<String> = generation.slices.iter().map(|s| format!("{tpu}-{s}")).collect();
            let hint =
                if sizes.is_empty() { "it has none".into() } else { format!("it has {}", sizes.join(", ")) };
            let path = ["clusters", &row.stem, "slices", target.as_str()];
            return Err(self.error(&path, format!("{tpu} has no slice `{target}`"), hint));
        }
        Ok(generation.worker_types(tpu, row.count("min_workers"), row.count("max_workers"), &slices))
    }

    /// Two clusters of the same name would share tags and terminate each other's machines.
    fn distinct(&self, rows: &[Row]) -> Result<(), FileError> {
        let mut seen = BTreeMap::new();
        for row in rows {
            let name = row.text("cluster_name");
            if let Some(first) = seen.insert(name, &row.stem) {
                let why = format!("{} and {first} have the same cluster_name `{name}`", row.stem);
                return Err(self.error(&["clusters", &row.stem], why, "give each cluster its own name"));
            }
        }
        Ok(())
    }
}

/// The derived value of a missing key; `before` are the values of the keys before it.
fn derived(key: &str, stem: &str, before: &[Sourced]) -> Option<(Value, &'static str)> {
    match key {
        "cluster_name" => Some((stem.into(), "the file name")),
        "region" => {
            let zone = before.iter().find(|v| v.key == "zone")?.value.as_str()?;
            Some((zone.rsplit_once('-')?.0.into(), "the zone"))
        }
        "min_workers" => Some((0.into(), "built-in default")),
        "max_workers" => Some((1024.into(), "built-in default")),
        "slices" => Some((Value::Mapping(Mapping::new()), "built-in default")),
        _ => None,
    }
}

fn is_name(text: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    text.chars().all(allowed) && text.starts_with(|c: char| c.is_ascii_alphanumeric())
}

fn count(value: &Value) -> Option<u32> {
    value.as_u64().and_then(|n| u32::try_from(n).ok())
}

fn targets(value: &Value) -> BTreeMap<String, u32> {
    let pair = |(k, v): (&Value, &Value)| Some((k.as_str()?.to_owned(), count(v)?));
    sort::collected(value.as_mapping().into_iter().flatten().filter_map(pair))
}
