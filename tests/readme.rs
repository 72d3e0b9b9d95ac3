//! What README.md and the manual say about keys, settings and dependencies is what the program does, and their links lead
//! somewhere.

#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use marin_tui::app::Keymap;
use marin_tui::app::actions::ACTIONS;
use marin_tui::config::DEFAULTS;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

const README: &str = include_str!("../README.md");
const KEYS: &str = include_str!("../assets/manual/keys.md");
const SETTINGS: &str = include_str!("../assets/manual/settings.md");
const CONTRIBUTING: &str = include_str!("../assets/manual/contributing.md");

/// Longest README that is read to its end.
const README_LINES: usize = 150;

#[test]
fn every_key_stands_in_the_table() {
    let keymap = Keymap::with_changes(&BTreeMap::new()).unwrap();
    for description in ACTIONS {
        let keys: Vec<String> = keymap.keys_of(description.action).map(|k| format!("`{k}`")).collect();
        let row = format!("| {} | {} |", keys.join(" "), description.help);
        assert!(KEYS.contains(&row), "keys.md lacks: {row}");
    }
}

#[test]
fn the_settings_are_quoted_as_they_are() {
    assert!(SETTINGS.contains(DEFAULTS.trim_end()), "the block in settings.md is not assets/config.yaml");
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
    let table = CONTRIBUTING.split("| dependency | why |").nth(1).unwrap();
    let rows: Vec<&str> = table.lines().filter_map(|l| l.strip_prefix("| ")?.split(" | ").next()).collect();
    let listed: Vec<&str> =
        rows.iter().flat_map(|r| r.split([',', '(', ')'])).map(str::trim).filter(|n| !n.is_empty()).collect();
    for name in names {
        assert!(listed.contains(&name), "the table in contributing.md lacks {name}");
    }
}

#[test]
fn the_readme_is_short() {
    let lines = README.lines().count();
    assert!(lines <= README_LINES, "README.md has {lines} lines; {README_LINES} at most");
}

#[test]
fn relative_links_lead_to_files() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut pages = manual_pages();
    pages.push(root.join("README.md"));
    pages.push(root.join("CHANGELOG.md"));
    let mut dead = Vec::new();
    let mut followed = 0;
    for page in &pages {
        let text = fs::read_to_string(page).unwrap();
        for link in relative_links(&text) {
            followed += 1;
            let file = link.split('#').next().unwrap_or(link);
            if !file.is_empty() && !page.parent().unwrap().join(file).is_file() {
                dead.push(format!("{}: {link}", page.display()));
            }
        }
    }
    assert!(dead.is_empty(), "{}", dead.join("\n"));
    assert!(followed > 20, "only {followed} links were found");
}

#[test]
fn a_manual_page_begins_with_its_title() {
    for page in manual_pages() {
        let text = fs::read_to_string(&page).unwrap();
        assert!(text.starts_with("# "), "{} has no title", page.display());
    }
}

#[test]
fn the_readme_links_every_manual_page() {
    for page in manual_pages() {
        let link = format!("(assets/manual/{})", page.file_name().unwrap().to_string_lossy());
        assert!(README.contains(&link), "README.md lacks a link to {}", page.display());
    }
}

/// The pages of the manual, sorted by name.
fn manual_pages() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("assets/manual");
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut pages: Vec<PathBuf> = files.filter(|f| f.extension().is_some_and(|e| e == "md")).collect();
    pages.sort();
    assert!(!pages.is_empty(), "there is no manual");
    pages
}

/// The targets of inline Markdown links and pictures (`](target)`) that name no other host.
fn relative_links(text: &str) -> Vec<&str> {
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    targets.filter(|target| !target.contains("://")).collect()
}
