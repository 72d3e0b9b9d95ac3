//! What README.md says about keys and settings is what the program does.

#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use marin_tui::app::Keymap;
use marin_tui::app::actions::ACTIONS;
use marin_tui::config::DEFAULTS;
use std::collections::BTreeMap;

const README: &str = include_str!("../README.md");

#[test]
fn every_key_stands_in_the_table() {
    let keymap = Keymap::with_changes(&BTreeMap::new()).unwrap();
    for description in ACTIONS {
        let keys: Vec<String> = keymap.keys_of(description.action).map(|k| format!("`{k}`")).collect();
        let row = format!("| {} | {} |", keys.join(" "), description.help);
        assert!(README.contains(&row), "README.md lacks: {row}");
    }
}

#[test]
fn the_settings_are_quoted_as_they_are() {
    assert!(README.contains(DEFAULTS.trim_end()), "the block under Settings is not assets/config.yaml");
}

#[test]
fn every_dependency_has_its_line() {
    let manifest = include_str!("../Cargo.toml");
    let mut section = "";
    let mut names = Vec::new();
    for line in manifest.lines() {
        if line.starts_with('[') {
            section = line;
        } else if section.ends_with("dependencies]") && !line.starts_with('#') {
            names.extend(line.split_once(" = ").map(|(name, _)| name));
        }
    }
    assert!(names.contains(&"tokio") && names.contains(&"tempfile"), "{names:?}");
    let table = README.split("| dependency | why |").nth(1).unwrap();
    let rows: Vec<&str> = table.lines().filter_map(|l| l.strip_prefix("| ")?.split(" | ").next()).collect();
    let listed: Vec<&str> =
        rows.iter().flat_map(|r| r.split([',', '(', ')'])).map(str::trim).filter(|n| !n.is_empty()).collect();
    for name in names {
        assert!(listed.contains(&name), "README.md's table lacks {name}");
    }
}
