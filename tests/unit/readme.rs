//! Checks README.md and the manual: settings and dependencies match the program, and links resolve. `manual.rs` has the
//! other checks.

use marin_tui::config::DEFAULTS;
use marin_tui::manual::{FOR_CONTRIBUTORS, PAGES};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const README: &str = include_str!("../../README.md");
const SETTINGS: &str = include_str!("../../assets/manual/settings.md");
const CONTRIBUTING: &str = include_str!("../../assets/manual/contributing.md");

/// Maximum number of lines of the README.
const README_LINES: usize = 150;

#[test]
fn the_manual_quotes_the_default_settings_verbatim() {
    assert!(SETTINGS.contains(DEFAULTS.trim_end()), "the block in settings.md is not assets/config.yaml");
}

#[test]
fn every_dependency_is_listed_with_its_reason() {
    let manifest = include_str!("../../Cargo.toml");
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
    let table = CONTRIBUTING.split("| dependency | purpose |").nth(1).unwrap();
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
fn relative_links_point_to_files() {
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
fn a_manual_page_starts_with_its_title() {
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

/// The targets of inline Markdown links and images (`](target)`) without a host.
fn relative_links(text: &str) -> Vec<&str> {
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    targets.filter(|target| !target.contains("://")).collect()
}

#[test]
fn every_page_of_the_manual_is_part_of_the_program() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("assets/manual");
    let mut files: Vec<String> = fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().path().file_stem().unwrap().to_str().unwrap().to_owned())
        .collect();
    let mut topics: Vec<String> = PAGES.iter().map(|(topic, _)| (*topic).to_owned()).collect();
    files.sort();
    topics.sort();
    assert_eq!(files, topics);
    let help = |words: &[&str]| {
        let program = Command::new(env!("CARGO_BIN_EXE_marin-tui")).arg("help").args(words).output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (program.status.code(), text(program.stdout), text(program.stderr))
    };
    for (topic, text) in PAGES {
        assert_eq!(help(&[topic]), (Some(0), text.to_owned(), String::new()));
    }
    let (_, all, _) = help(&[]);
    assert!(
        PAGES.iter().all(|(topic, _)| {
            let is_listed = all.contains(&format!("\n{topic} "));
            is_listed != FOR_CONTRIBUTORS.contains(topic)
                && (is_listed || all.contains(&format!("help {topic}")))
        }) && all.contains("stop-job"),
        "{all}"
    );
    assert!(help(&["stop-job"]).1.contains("Usage: marin-tui stop-job"), "{:?}", help(&["stop-job"]));
    assert!(help(&["configs", "update"]).1.contains("Usage: marin-tui configs update"));
    let (code, out, error) = help(&["trubleshooting"]);
    assert!(
        (code, out.as_str()) == (Some(1), "") && error.contains("did you mean `troubleshooting`?"),
        "{error}"
    );
}
