//! JSON objects from keys and values.

use crate::model::sort;
use serde_json::Value;

/// The JSON object with these members. Of members with the same key, the last counts.
pub fn object<K: Into<String>, V: Into<Value>>(members: impl IntoIterator<Item = (K, V)>) -> Value {
    Value::Object(sort::collected(members.into_iter().map(|(key, value)| (key.into(), value.into()))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_last_member_with_a_key_counts() {
        assert_eq!(object([("b", 1), ("a", 2), ("b", 3)]), json!({"a": 2, "b": 3}));
    }
}
