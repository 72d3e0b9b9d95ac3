//! Warnings about a job that is about to be submitted, for the command and for the console's form.

use super::slices::tpu_warnings;
use crate::diagnose::infeasible;
use crate::infra::{Table, named_buckets};
use crate::model::text::printable;
use crate::model::{ClusterSpec, Snapshot};
use crate::ray::Submission;
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;

/// Requests that will be delayed or never met, and data in another region, one sentence each; safe to print. Reads
/// files next to the cluster file.
pub fn warnings(job: &Submission, spec: &ClusterSpec) -> Vec<String> {
    unmet(job, spec).into_iter().chain(far_data(job, spec)).collect()
}

/// Why the entrypoint's request will be delayed or never met, according to the node types in the cluster file.
fn unmet(job: &Submission, spec: &ClusterSpec) -> Vec<String> {
    let found = tpu_warnings(spec, &job.entrypoint_resources);
    if !found.is_empty() {
        return found;
    }
    let named = [("CPU", job.entrypoint_num_cpus), ("GPU", job.entrypoint_num_gpus)];
    let named = named.into_iter().filter_map(|(name, n)| Some((name.into(), n.filter(|n| *n > 0.0)?)));
    let others = job.entrypoint_resources.iter().map(|(name, n)| (name.as_str().into(), *n));
    let needs: Vec<_> = named.chain(others).collect();
    let why = infeasible(&needs, &spec.node_types, &Snapshot::default());
    why.map(|why| format!("{why}: the job will stay pending unless such a node is added manually"))
        .into_iter()
        .collect()
}

/// Buckets in another region that the job names, one sentence each. Regions are those of the table next to the cluster
/// file; without it there are no warnings. For a variable, only its name is reported.
fn far_data(job: &Submission, spec: &ClusterSpec) -> Vec<String> {
    let folder = spec.file.as_deref().and_then(Path::parent);
    let Some(table) = folder.and_then(|folder| Table::read(folder).ok()) else { return Vec::new() };
    let Some(zone) = spec.zone.as_deref() else { return Vec::new() };
    let region = zone.rsplit_once('-').filter(|(_, last)| last.len() == 1).map_or(zone, |(region, _)| region);
    let variables = job.runtime_env.get("env_vars").and_then(Value::as_object);
    let variables = variables.into_iter().flatten();
    let variables = variables.filter_map(|(name, value)| Some((format!(" (in {name})"), value.as_str()?)));
    let own = table.find(spec.name.as_str()).and_then(|row| table.buckets.get_key_value(row.text("bucket")));
    let own = own.filter(|(_, location)| **location == region);
    let own = own.map_or_else(String::new, |(bucket, _)| format!("; its own bucket is gs://{bucket}"));
    let mut reported = BTreeSet::new();
    let texts = [(String::new(), job.entrypoint.as_str())].into_iter().chain(variables);
    let far = texts.flat_map(|(source, text)| {
        named_buckets(text).map(move |bucket| (source.clone(), bucket)).collect::<Vec<_>>()
    });
    let far = far.filter_map(|(source, bucket)| {
        let there = table.elsewhere(bucket, region)?;
        reported.insert(bucket).then(|| {
            format!(
                "gs://{bucket}{} is in {}, but {} is in {region}; transfer between regions costs money{own}",
                printable(&source),
                printable(there),
                spec.name
            )
        })
    });
    far.collect()
}
