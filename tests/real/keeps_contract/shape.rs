//! The structure of a response: keys and types of JSON, field numbers and wire types of protobuf.

use crate::contract::fields;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Objects whose keys are data (resource names, labels, ids), not fields.
const MAPS: [&str; 16] = [
    "labels",
    "resources_total",
    "resourcesTotal",
    "nodeLogicalResources",
    "metadata",
    "usage",
    "usageByNode",
    "activeNodes",
    "pendingLaunches",
    "nodeAvailabilities",
    "nodeTypeMapping",
    "summary",
    "disk",
    "usedResources",
    "required_resources",
    "state_counts",
];

/// Lists of such objects, also nested lists.
const LISTS_OF_MAPS: [&str; 2] = ["nodeTypes", "resourceDemand"];

/// The types seen at a path, and the shapes below it.
#[derive(Debug, Default)]
pub struct Shape {
    types: BTreeSet<&'static str>,
    below: BTreeMap<String, Shape>,
}

impl Shape {
    /// The shape of one response.
    pub fn of(value: &Value) -> Self {
        let mut shape = Self::default();
        shape.add("", value);
        shape
    }

    fn add(&mut self, name: &str, value: &Value) {
        self.types.insert(match value {
            Value::Null => "null",
            Value::Bool(_) => "bool",
            Value::Number(_) => "number",
            Value::String(_) => "string",
            Value::Array(_) => "array",
            Value::Object(_) => "object",
        });
        match value {
            Value::Array(items) => {
                let name = if LISTS_OF_MAPS.contains(&name) { name } else { "" };
                for item in items {
                    self.below.entry("[]".into()).or_default().add(name, item);
                }
            }
            // Its content is arbitrary: a user wrote it.
            Value::Object(_) if name == "runtime_env" => {}
            Value::Object(fields) => {
                let map = MAPS.contains(&name) || LISTS_OF_MAPS.contains(&name);
                for (key, v) in fields {
                    let segment = if map { "{}" } else { key };
                    // A map of maps: the keys one level below are data, too.
                    let name = if name == "usageByNode" { "usage" } else { segment };
                    self.below.entry(segment.into()).or_default().add(name, v);
                }
            }
            _ => {}
        }
    }

    /// Reports paths of `self` that `real` does not have, or has with other types. Values that are null on one side,
    /// and lists and maps that are empty there, are not compared.
    pub fn missing_in(&self, real: &Self, path: &str, out: &mut Vec<String>) {
        let known = |s: &Self| s.types.iter().any(|t| *t != "null");
        let unexpected: Vec<_> = self.types.difference(&real.types).filter(|t| **t != "null").collect();
        if known(real) && !unexpected.is_empty() {
            out.push(format!("{path} is {unexpected:?}, in Ray {:?}", real.types));
        }
        for (key, shape) in &self.below {
            let path = format!("{path}/{key}");
            match real.below.get(key) {
                Some(real) => shape.missing_in(real, &path, out),
                None if !known(real) || key == "[]" || key == "{}" => {}
                None => out.push(format!("{path} does not exist in Ray")),
            }
        }
    }
}

/// Field numbers and wire types of all messages at `path` (field numbers) within a message.
pub fn numbers(message: &[u8], path: &[u64]) -> BTreeSet<(u64, u64)> {
    let Some((first, rest)) = path.split_first() else {
        return fields(message).into_iter().map(|(n, kind, _)| (n, kind)).collect();
    };
    fields(message).iter().filter(|(n, ..)| n == first).flat_map(|(_, _, v)| numbers(v, rest)).collect()
}
