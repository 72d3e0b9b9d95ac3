//! What an answer consists of: JSON as keys and types, protobuf as field numbers and wire types.

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

/// Lists, also of lists, of such objects.
const LISTS_OF_MAPS: [&str; 2] = ["nodeTypes", "resourceDemand"];

/// The types that were seen at a place, and what lies below it.
#[derive(Debug, Default)]
pub struct Shape {
    types: BTreeSet<&'static str>,
    below: BTreeMap<String, Shape>,
}

impl Shape {
    /// Of one answer.
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
            // Anything that a user wrote.
            Value::Object(_) if name == "runtime_env" => {}
            Value::Object(fields) => {
                let map = MAPS.contains(&name) || LISTS_OF_MAPS.contains(&name);
                for (key, v) in fields {
                    let place = if map { "{}" } else { key };
                    // A map of maps: what lies below has data as keys, too.
                    let name = if name == "usageByNode" { "usage" } else { place };
                    self.below.entry(place.into()).or_default().add(name, v);
                }
            }
            _ => {}
        }
    }

    /// Places of `self` that `real` does not have, or has with other types. What is null on one side, or a list or
    /// map that is empty there, tells nothing.
    pub fn beyond(&self, real: &Self, path: &str, out: &mut Vec<String>) {
        let known = |s: &Self| s.types.iter().any(|t| *t != "null");
        let strange: Vec<_> = self.types.difference(&real.types).filter(|t| **t != "null").collect();
        if known(real) && !strange.is_empty() {
            out.push(format!("{path} is {strange:?}, in Ray {:?}", real.types));
        }
        for (key, shape) in &self.below {
            let path = format!("{path}/{key}");
            match real.below.get(key) {
                Some(real) => shape.beyond(real, &path, out),
                None if !known(real) || key == "[]" || key == "{}" => {}
                None => out.push(format!("{path} does not exist in Ray")),
            }
        }
    }
}

/// The numbers and wire types of all messages that lie at `path` (field numbers) in a message.
pub fn numbers(message: &[u8], path: &[u64]) -> BTreeSet<(u64, u64)> {
    let Some((first, rest)) = path.split_first() else {
        return fields(message).into_iter().map(|(n, kind, _)| (n, kind)).collect();
    };
    fields(message).iter().filter(|(n, ..)| n == first).flat_map(|(_, _, v)| numbers(v, rest)).collect()
}
