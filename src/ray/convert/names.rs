//! Ray's dashboard converts every JSON key to camel case, including resource names, and loses information.
//! Verbatim names elsewhere in the same responses are used to restore them.

use std::collections::HashMap;

/// Verbatim names by their camel-case form.
#[derive(Debug, Default)]
pub struct Names(HashMap<String, String>);

impl Names {
    /// Adds a verbatim name.
    pub fn insert(&mut self, name: &str) {
        self.0.entry(mangled(name)).or_insert_with(|| name.to_owned());
    }

    /// The verbatim name, or the camel-case one when it is not known.
    pub fn recover<'a>(&'a self, mangled: &'a str) -> &'a str {
        self.0.get(mangled).map_or(mangled, String::as_str)
    }
}

/// `to_camel_case` of Ray's dashboard (`ray/dashboard/utils.py`).
fn mangled(name: &str) -> String {
    let mut parts = name.split('_');
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        title(part, &mut out);
    }
    out
}

/// Python's `str.title`: a letter is upper case unless another letter precedes it.
fn title(part: &str, out: &mut String) {
    let mut inside = false;
    for c in part.chars() {
        if inside {
            out.extend(c.to_lowercase());
        } else {
            out.extend(c.to_uppercase());
        }
        inside = c.is_alphabetic();
    }
}

/// Whether a resource belongs to a placement group: `CPU_group_0_<id>`, `bundle_group_<id>`.
pub fn is_shadow(name: &str) -> bool {
    let Some((_, tail)) = name.split_once("_group_") else { return false };
    let id = tail.rsplit('_').next().unwrap_or_default();
    id.len() == 36 && id.bytes().all(|b| b.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_mangled_as_ray_does() {
        // Recorded from Ray 2.53 and 2.60.
        for (name, seen) in [
            ("tpu_worker", "tpuWorker"),
            ("my_custom_res", "myCustomRes"),
            ("object_store_memory", "objectStoreMemory"),
            ("node:__internal_head__", "node:InternalHead"),
            ("TPU-v4-8-head", "TPU-v4-8-head"),
            (
                "CPU_group_0_e9154e65c0a6fb61b6cf1577f1c104000000",
                "CPUGroup0E9154E65C0A6Fb61B6Cf1577F1C104000000",
            ),
        ] {
            assert_eq!(mangled(name), seen);
            let mut names = Names::default();
            names.insert(name);
            assert_eq!(names.recover(seen), name);
        }
        assert_eq!(Names::default().recover("tpuWorker"), "tpuWorker");
    }

    #[test]
    fn resources_of_placement_groups_are_recognized() {
        assert!(is_shadow("CPU_group_0_e9154e65c0a6fb61b6cf1577f1c104000000"));
        assert!(is_shadow("bundle_group_e9154e65c0a6fb61b6cf1577f1c104000000"));
        assert!(!is_shadow("my_group_of_things"));
        assert!(!is_shadow("TPU"));
    }
}
