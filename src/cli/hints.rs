//! Hints in JSON: the sentence, and its fixes as a list.

use crate::model::{Fix, Hint, Target};
use serde_json::{Value, json};

/// Adds a hint to a JSON object: `hint`, a sentence with whole command lines, or null; and `fixes`, a list of `text`,
/// `action` and `command`, each null where there is none.
pub fn add(value: &mut Value, hint: Option<&Hint>, target: Target<'_>) {
    let hint = hint.filter(|hint| !hint.is_empty());
    value["hint"] = hint.map(|hint| hint.in_commands(target)).into();
    value["fixes"] = hint.into_iter().flat_map(Hint::fixes).map(|fix| one(fix, target)).collect();
}

fn one(fix: &Fix, target: Target<'_>) -> Value {
    // The words that join the fixes to a sentence mean nothing on their own.
    let purpose = fix.purpose();
    let text = purpose.strip_prefix("or ").or_else(|| purpose.strip_prefix("then ")).unwrap_or(purpose);
    let text = Some(text).filter(|text| !text.is_empty());
    let action = if let Fix::Action { verb, .. } = fix { Some(verb.name()) } else { None };
    json!({"text": text, "action": action, "command": fix.line(target)})
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{ClusterName, Verb};

    #[test]
    fn a_script_gets_the_sentence_and_each_command() {
        let lab = ClusterName::new("lab");
        let hint = Hint::from("ask bo")
            .and(Verb::Restart.to("then restart it"))
            .and(Fix::command("", "chmod 600 key"));
        let mut value = json!({});
        add(&mut value, Some(&hint), Target::of(&lab));
        let line = "marin-tui -c lab restart-cluster";
        assert_eq!(value["hint"], format!("ask bo; then restart it: `{line}`; run `chmod 600 key`"));
        assert_eq!(
            value["fixes"],
            json!([
                {"text": "ask bo", "action": null, "command": null},
                {"text": "restart it", "action": "restart-cluster", "command": line},
                {"text": null, "action": null, "command": "chmod 600 key"},
            ])
        );
        for nothing in [None, Some(&Hint::none())] {
            add(&mut value, nothing, Target::default());
            assert_eq!(value, json!({"hint": null, "fixes": []}));
        }
    }
}
