//! Validation rules for Ray cluster-launcher files.

mod keys;
mod tpu;

use super::buckets;
use super::generated::{self, PlanError, Planned, State};
use super::table::Table;
use crate::config::{Settings, cluster_of, line_of, yaml, yaml::FileError};
use crate::model::{marked_secret, named_secrets};
use serde_yaml::{Mapping, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// `ray up` refuses the file, or it would do damage.
    Error,
    /// It works, but is probably a mistake.
    Warning,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    pub file: PathBuf,
    /// Its line, from 1, if the finding is about one line.
    pub line: Option<usize>,
    pub severity: Severity,
    /// The rule's name, for scripts.
    pub rule: &'static str,
    /// What is wrong.
    pub what: String,
    /// What to do.
    pub hint: String,
}

/// Checks every file on its own and against the others. The table next to them, if there is one, provides the zones of
/// the TPU generations, the regions of buckets and the names of clusters.
pub fn validate(files: &[PathBuf], table: Option<&Table>) -> Vec<Finding> {
    check(files.iter().map(|file| (file.as_path(), yaml::read(file))), table)
}

/// Checks the files of a plan as they would be written. The findings have the lines of the rendered text, or those of
/// the template if it cannot be rendered.
pub fn validate_plan(plan: &[Planned], table: &Table) -> Vec<Finding> {
    let rendered = plan.iter().filter(|p| !matches!(p.state, State::Orphan | State::Broken));
    let mut findings = check(rendered.map(|p| (p.file.as_path(), Ok(p.after.clone()))), Some(table));
    findings.extend(
        PlanError::distinct(plan.iter().filter_map(|p| p.error.as_ref())).into_iter().map(Finding::from),
    );
    findings
}

impl From<PlanError> for Finding {
    fn from(e: PlanError) -> Self {
        let severity = Severity::Error;
        match e {
            PlanError::File(e) => {
                let line = e.at.map(|(line, _)| line);
                Self { file: e.file, line, severity, rule: "shape", what: e.why, hint: e.hint }
            }
            PlanError::Template(e) => {
                let what = format!("{}, for cluster {}", e.why, e.cluster);
                Self { file: e.file, line: e.line, severity, rule: "template", what, hint: e.hint }
            }
        }
    }
}

fn check<'f>(
    files: impl IntoIterator<Item = (&'f Path, Result<String, FileError>)>,
    table: Option<&Table>,
) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut names: BTreeMap<String, PathBuf> = BTreeMap::new();
    for (file, text) in files {
        let mut rules = match text.and_then(|text| Rules::read(text, file, table)) {
            Ok(rules) => rules,
            Err(e) => {
                findings.push(PlanError::File(e).into());
                continue;
            }
        };
        rules.all();
        if let Some(name) = rules.root.get("cluster_name").and_then(Value::as_str) {
            let name = name.to_owned();
            if let Some(first) = names.get(&name) {
                let what = format!("cluster_name `{name}` is already used by {}", first.display());
                let hint = "rename one: two clusters with the same name share tags and terminate each other's machines";
                rules.error("same-name", &["cluster_name"], what, hint);
            }
            names.entry(name).or_insert_with(|| file.into());
        }
        findings.append(&mut rules.findings);
    }
    findings
}

/// One file and what was found in it so far.
struct Rules<'a> {
    file: &'a Path,
    text: String,
    root: Mapping,
    table: Option<&'a Table>,
    findings: Vec<Finding>,
}

impl<'a> Rules<'a> {
    fn read(text: String, file: &'a Path, table: Option<&'a Table>) -> Result<Self, FileError> {
        // Keys that the console needs are checked by the console's own parser.
        cluster_of(&text, file, &Settings::default())?;
        let root: Value = yaml::parse(&text, file)?;
        let Value::Mapping(root) = root else {
            return Err(FileError::new(file, "is not a `key: value` mapping", "write one key per line"));
        };
        Ok(Self { file, text, root, table, findings: Vec::new() })
    }

    fn all(&mut self) {
        self.known_keys();
        self.limits();
        self.head();
        self.regions();
        self.zones_of_tpus();
        self.rename();
        self.secrets();
    }

    fn add(&mut self, severity: Severity, rule: &'static str, path: &[&str], what: String, hint: &str) {
        let (file, line) = (self.file.into(), line_of(&self.text, path));
        self.findings.push(Finding { file, line, severity, rule, what, hint: hint.into() });
    }

    fn error(&mut self, rule: &'static str, path: &[&str], what: String, hint: &str) {
        self.add(Severity::Error, rule, path, what, hint);
    }

    fn warn(&mut self, rule: &'static str, path: &[&str], what: String, hint: &str) {
        self.add(Severity::Warning, rule, path, what, hint);
    }

    fn text_at(&self, path: &[&str]) -> Option<&str> {
        let mut value = self.root.get(path.first()?)?;
        for key in &path[1..] {
            value = value.get(*key)?;
        }
        value.as_str()
    }

    /// The node types by name.
    fn types(&self) -> Vec<(String, Value)> {
        let types = self.root.get("available_node_types").and_then(Value::as_mapping);
        let named = |(name, value): (&Value, &Value)| Some((name.as_str()?.to_owned(), value.clone()));
        types.into_iter().flatten().filter_map(named).collect()
    }

    fn head_type(&self) -> Option<String> {
        self.text_at(&["head_node_type"]).map(str::to_owned)
    }

    /// Checks `min_workers` and `max_workers` of each type and of the cluster.
    fn limits(&mut self) {
        const TYPES: &str = "available_node_types";
        let number = |value: Option<&Value>| value.and_then(Value::as_u64);
        let all = number(self.root.get("max_workers"));
        let mut sum = 0;
        for (name, value) in self.types() {
            let min = number(value.get("min_workers")).unwrap_or(0);
            let max = number(value.get("max_workers")).or(all);
            sum += min;
            if max.is_some_and(|max| min > max) {
                let what = format!("{name}: min_workers {min} exceeds its max_workers {}", max.unwrap_or(0));
                self.error(
                    "min-over-max",
                    &[TYPES, &name, "min_workers"],
                    what,
                    "lower min_workers, or raise max_workers",
                );
            }
        }
        if all.is_some_and(|all| sum > all) {
            let what = format!(
                "the sum of min_workers, {sum}, exceeds the cluster's max_workers {}",
                all.unwrap_or(0)
            );
            self.error("min-over-max", &["max_workers"], what, "raise max_workers, or lower min_workers");
        }
        let (min, max) = (number(self.root.get("min_workers")), all);
        if min > max && max.is_some() {
            let what = format!("min_workers {} exceeds max_workers {}", min.unwrap_or(0), max.unwrap_or(0));
            self.error("min-over-max", &["min_workers"], what, "lower min_workers, or raise max_workers");
        }
    }

    /// Checks the head's type. Tasks on the head can exhaust its memory, and the cluster fails with the head.
    fn head(&mut self) {
        let types = self.types();
        if types.is_empty() {
            return;
        }
        let Some(name) = self.head_type() else {
            let hint = "add `head_node_type:` with one of available_node_types";
            return self.error("head-type", &["available_node_types"], "no head_node_type".into(), hint);
        };
        let Some((_, head)) = types.iter().find(|(n, _)| *n == name) else {
            let what = format!("head_node_type `{name}` is not among available_node_types");
            let near = crate::config::nearest(&name, types.iter().map(|(n, _)| n.as_str()));
            let hint = near.map_or_else(
                || "add the type, or use another one".into(),
                |n| format!("did you mean `{n}`?"),
            );
            return self.error("head-type", &["head_node_type"], what, &hint);
        };
        let cpu = head.get("resources").and_then(|r| r.get("CPU")).and_then(Value::as_u64);
        let path = ["available_node_types", &name, "resources"];
        if cpu != Some(0) && types.len() > 1 {
            let what = format!(
                "the head ({name}) would run tasks: its CPU resource is {}",
                cpu.map_or_else(|| "not set, so Ray uses the machine's CPU count".into(), |n| n.to_string())
            );
            let hint =
                "set `CPU: 0` in its resources: a task that exhausts its memory takes down the whole cluster";
            self.warn("head-runs-tasks", &path, what, hint);
        }
        let max = head.get("max_workers").and_then(Value::as_u64);
        if max.is_some_and(|n| n > 0) {
            let what = format!("the head's type {name} allows {} workers", max.unwrap_or(0));
            self.warn(
                "head-type",
                &["available_node_types", &name, "max_workers"],
                what,
                "set `max_workers: 0`",
            );
        }
    }

    /// Checks for data and images in other regions, which cost money and time.
    fn regions(&mut self) {
        let region = self.text_at(&["provider", "region"]).unwrap_or_default().to_owned();
        let zone = self.text_at(&["provider", "availability_zone"]).unwrap_or_default().to_owned();
        if self.text_at(&["provider", "type"]) != Some("gcp") || region.is_empty() {
            return;
        }
        if !zone.is_empty() && zone.rsplit_once('-').is_none_or(|(of, _)| of != region) {
            let what = format!("zone {zone} is not in region {region}");
            self.error("zone", &["provider", "availability_zone"], what, "correct one of the two");
        }
        let table = self.table;
        let mut reported = Vec::new();
        for (number, line) in self.text.clone().lines().enumerate() {
            if line.trim_start().starts_with('#') {
                continue;
            }
            for bucket in buckets::named(line) {
                let Some(location) = table.and_then(|table| table.elsewhere(bucket, &region)) else {
                    continue;
                };
                if reported.contains(&bucket.to_owned()) {
                    continue;
                }
                reported.push(bucket.to_owned());
                let what = format!("bucket {bucket} is in {location}, but the cluster is in {region}");
                let hint = "use a bucket in the cluster's region: traffic between regions is charged";
                self.error("bucket-region", &[], what, hint);
                if let Some(finding) = self.findings.last_mut() {
                    finding.line = Some(number + 1);
                }
            }
        }
        let image = self.text_at(&["docker", "image"]).unwrap_or_default();
        if let Some((location, _)) = image.split('/').next().and_then(|h| h.split_once("-docker.pkg.dev"))
            && location != region
            // Multi-regions (us, europe, asia) serve their own regions.
            && !region.starts_with(location)
        {
            let what = format!("the image is in {location}, but the cluster is in {region}");
            let hint = "use a registry in the cluster's region: every node pulls the image at each start";
            self.warn("image-region", &["docker", "image"], what, hint);
        }
    }

    /// Checks for a renamed cluster: Ray finds its machines by the cluster's name.
    fn rename(&mut self) {
        let stem = self.file.file_stem().map(|s| s.to_string_lossy().into_owned()).unwrap_or_default();
        let Some(row) = self.table.and_then(|t| t.rows.iter().find(|r| r.stem == stem)) else { return };
        let (now, meant) = (self.text_at(&["cluster_name"]).unwrap_or_default(), row.text("cluster_name"));
        if now != meant && generated::is_generated(&self.text) {
            let what = format!("cluster_name is `{now}`, but `{meant}` in clusters.yaml");
            let hint = "run `ray down` with the old name first: Ray would orphan its machines";
            self.error("renamed", &["cluster_name"], what, hint);
        }
    }

    /// Checks for secrets: a cluster file is shared and committed, and its commands become metadata of TPUs.
    fn secrets(&mut self) {
        let mut named = BTreeSet::new();
        for (number, line) in self.text.clone().lines().enumerate() {
            if let Some(what) = marked_secret(line) {
                let hint = "remove and revoke it, and read it from a secret store on the machines";
                self.error("secret", &[], format!("possible {what}"), hint);
                if let Some(finding) = self.findings.last_mut() {
                    finding.line = Some(number + 1);
                }
                // It is not reported again for its name.
                named.extend(named_secrets(line));
            }
        }
        for (number, line) in self.text.clone().lines().enumerate() {
            let line = line.trim_start().trim_start_matches("- ");
            for name in named_secrets(line) {
                if named.insert(name.clone()) {
                    self.named_secret(&name, Some(number + 1));
                }
            }
        }
        // A command may be folded over several lines, so the parsed strings are checked as well.
        let mut texts = Vec::new();
        texts_of(&Value::Mapping(self.root.clone()), &mut texts);
        for name in texts.iter().flat_map(|text| named_secrets(text)) {
            if named.insert(name.clone()) {
                self.named_secret(&name, None);
            }
        }
    }

    fn named_secret(&mut self, name: &str, line: Option<usize>) {
        let what = format!("`{name}` looks like a secret");
        let hint = "read it on the machine, e.g. with `gcloud secrets versions access`: this file is shared, and add-worker \
                    copies its commands into metadata that everyone with tpu.nodes.get can read";
        self.warn("secret", &[], what, hint);
        if let Some(finding) = self.findings.last_mut() {
            finding.line = line;
        }
    }
}

/// Collects all strings in a value.
fn texts_of(value: &Value, texts: &mut Vec<String>) {
    match value {
        Value::String(text) => texts.push(text.clone()),
        Value::Sequence(items) => items.iter().for_each(|v| texts_of(v, texts)),
        Value::Mapping(map) => map.values().for_each(|v| texts_of(v, texts)),
        _ => {}
    }
}
