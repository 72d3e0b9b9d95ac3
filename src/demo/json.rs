//! JSON as Ray's dashboard writes it: Python's separators, so that sizes are realistic, and camel-case keys.

use serde::Serialize;
use serde_json::Value;
use serde_json::ser::Formatter;
use std::io;

/// Python's `json.dumps`: a space after each comma and colon.
struct Python;

impl Formatter for Python {
    fn begin_array_value<W: ?Sized + io::Write>(&mut self, w: &mut W, first: bool) -> io::Result<()> {
        if first { Ok(()) } else { w.write_all(b", ") }
    }

    fn begin_object_key<W: ?Sized + io::Write>(&mut self, w: &mut W, first: bool) -> io::Result<()> {
        if first { Ok(()) } else { w.write_all(b", ") }
    }

    fn begin_object_value<W: ?Sized + io::Write>(&mut self, w: &mut W) -> io::Result<()> {
        w.write_all(b": ")
    }
}

/// Serializes `value`.
pub(super) fn dumps(value: &Value) -> String {
    let mut out = Vec::new();
    // Serializing a Value to memory cannot fail: its keys are strings and a Vec accepts every byte.
    let written = value.serialize(&mut serde_json::Serializer::with_formatter(&mut out, Python));
    debug_assert!(written.is_ok());
    String::from_utf8(out).unwrap_or_default()
}

/// Serializes the object `value` with further members that are already JSON text.
pub(super) fn dumps_with(value: &Value, members: &[(&str, &str)]) -> String {
    let mut out = dumps(value);
    out.pop();
    for (key, text) in members {
        if out.len() > 1 {
            out.push_str(", ");
        }
        out.push('"');
        out.push_str(key);
        out.push_str("\": ");
        out.push_str(text);
    }
    out.push('}');
    out
}

/// A JSON array of items that are already JSON text.
pub(super) fn array<'a>(items: impl IntoIterator<Item = &'a str>) -> String {
    let mut out = String::from("[");
    for item in items {
        if out.len() > 1 {
            out.push_str(", ");
        }
        out.push_str(item);
    }
    out.push(']');
    out
}

/// The dashboard's envelope around `data`, itself JSON text.
pub(super) fn envelope(message: &str, data: &str) -> String {
    format!("{{\"result\": true, \"msg\": \"{message}\", \"data\": {data}}}")
}

/// Ray's `to_camel_case`, which the dashboard applies to every key, resource names included.
pub(super) fn camel(name: &str) -> String {
    let mut parts = name.split('_');
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let mut after_letter = false;
        for c in part.chars() {
            if after_letter {
                out.extend(c.to_lowercase());
            } else {
                out.extend(c.to_uppercase());
            }
            after_letter = c.is_alphabetic();
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn output_matches_python() {
        assert_eq!(dumps(&json!({"a": [1, 2.0, null], "b": {}})), r#"{"a": [1, 2.0, null], "b": {}}"#);
        assert_eq!(dumps_with(&json!({"a": 1}), &[("b", "[]")]), r#"{"a": 1, "b": []}"#);
        assert_eq!(dumps_with(&json!({}), &[("b", "[]")]), r#"{"b": []}"#);
        assert_eq!(array(["1", "2"]), "[1, 2]");
    }

    #[test]
    fn keys_are_converted_as_in_ray() {
        assert_eq!(camel("object_store_memory"), "objectStoreMemory");
        assert_eq!(camel("node:__internal_head__"), "node:InternalHead");
        assert_eq!(camel("TPU-v4-8-head"), "TPU-v4-8-head");
        assert_eq!(camel("CPU_group_0_e9154e65c0a6"), "CPUGroup0E9154E65C0A6");
    }
}
