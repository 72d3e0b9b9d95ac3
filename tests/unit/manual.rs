//! Checks the manual against the program: every key, command, option, exit code, setting, variable and JSON key that it
//! names exists, and every one that exists is named.

use clap::{Command, CommandFactory as _};
use marin_tui::app::Context;
use marin_tui::app::pages::tables;
use marin_tui::app::{Keymap, actions};
use marin_tui::cli::Arguments;
use marin_tui::cli::overview::GROUPS;
use marin_tui::manual::PAGES;
use regex::Regex;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

fn page(topic: &str) -> &'static str {
    PAGES.iter().find(|(known, _)| *known == topic).unwrap().1
}

/// The part of a page below a heading.
fn section(topic: &str, heading: &str) -> &'static str {
    let rest = page(topic).split(&format!("\n## {heading}\n")).nth(1).unwrap();
    rest.split("\n## ").next().unwrap()
}

/// The first cells of the table rows in a text.
fn first_cells(text: &str) -> Vec<&str> {
    let rows = text.lines().filter_map(|line| line.strip_prefix("| ")?.split(" | ").next());
    // The first rows are the header and the separator.
    rows.skip(2).collect()
}

/// All texts that a group of the pattern matches.
fn all<'a>(pattern: &str, text: &'a str) -> BTreeSet<&'a str> {
    Regex::new(pattern)
        .unwrap()
        .captures_iter(text)
        .filter_map(|found| Some(found.iter().skip(1).flatten().next()?.as_str()))
        .collect()
}

/// Words in backticks.
fn quoted(text: &str) -> BTreeSet<&str> {
    all("`([^`]+)`", text)
}

/// The program's commands that are not hidden, with their subcommands, by full name (`configs update`).
fn commands() -> BTreeMap<String, Command> {
    fn walk(command: &Command, name: &str, into: &mut BTreeMap<String, Command>) {
        for inner in command.get_subcommands().filter(|c| !c.is_hide_set()) {
            walk(inner, format!("{name} {}", inner.get_name()).trim(), into);
        }
        into.insert(name.to_owned(), command.clone());
    }
    let mut program = Arguments::command();
    program.build();
    let mut found = BTreeMap::new();
    walk(&program, "", &mut found);
    found
}

/// The long options of a command.
fn options(command: &Command) -> BTreeSet<String> {
    command.get_arguments().filter_map(|a| a.get_long()).map(|long| format!("--{long}")).collect()
}

/// Contents of the Rust files of `src`, or of a directory in it.
fn sources(folder: &str) -> String {
    fn walk(path: &Path, into: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()) {
            if entry.is_dir() {
                walk(&entry, into);
            } else {
                into.push(entry);
            }
        }
    }
    let mut files = Vec::new();
    walk(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src").join(folder), &mut files);
    files.iter().map(|file| fs::read_to_string(file).unwrap()).collect()
}

/// The section of the page about keys in which an action with these contexts belongs.
fn section_of(contexts: &[Context]) -> &'static str {
    use Context as C;
    const DIALOGS: &[Context] = &[C::Ask, C::Text, C::Plan, C::Form, C::Columns];
    const SECTIONS: [(&str, &[Context]); 8] = [
        ("Logs", &[C::Log]),
        ("Workers of a job", &[C::JobWorkers]),
        ("Operations and dialogs", &[C::Progress, C::Ask, C::Text, C::Plan, C::Form, C::Columns]),
        ("Panes of a cluster", &[C::Nodes, C::Jobs, C::Log, C::Autoscaler]),
        ("Jobs", &[C::Jobs, C::AllJobs, C::Table, C::JobWorkers, C::Job]),
        ("Nodes and TPUs", &[C::Nodes, C::AllNodes, C::AllTpus, C::Tpus, C::Slice, C::Node, C::Tpu]),
        (
            "Jobs, nodes and TPUs",
            &[
                C::Jobs,
                C::AllJobs,
                C::Table,
                C::JobWorkers,
                C::Job,
                C::Nodes,
                C::AllNodes,
                C::AllTpus,
                C::Tpus,
                C::Slice,
                C::Node,
                C::Tpu,
                C::Info,
                C::Autoscaler,
            ],
        ),
        (
            "Tables",
            &[
                C::Clusters,
                C::AllNodes,
                C::AllJobs,
                C::AllTpus,
                C::Table,
                C::Nodes,
                C::Jobs,
                C::Tpus,
                C::Slice,
                C::JobWorkers,
            ],
        ),
    ];
    let pages: Vec<_> = contexts.iter().filter(|context| !DIALOGS.contains(context)).collect();
    let found = SECTIONS.iter().find(|(_, all)| {
        if pages.is_empty() { all.contains(&C::Ask) } else { pages.iter().all(|page| all.contains(page)) }
    });
    found.map_or("All or most pages", |(title, _)| title)
}

#[test]
fn the_tables_of_keys_are_the_keymap() {
    let keymap = Keymap::with_changes(actions(), &BTreeMap::new()).unwrap();
    let mut sections: BTreeMap<&str, String> = BTreeMap::new();
    for action in actions() {
        let keys: Vec<String> = keymap.keys_of(*action).map(|key| format!("`{key}`")).collect();
        let description = action.describe();
        let table = sections.entry(section_of(description.contexts)).or_default();
        writeln!(table, "| {} | {} | `{}` |", keys.join(" "), description.help, description.name).unwrap();
    }
    let page = page("keys");
    for (title, rows) in sections {
        let table = format!("## {title}\n\n| key | action | name |\n| --- | --- | --- |\n{rows}\n");
        assert!(page.contains(&table), "the page about keys lacks this section:\n{table}");
    }
    assert_eq!(page.matches("| key | action | name |").count(), 9);
}

#[test]
fn the_names_of_keys_are_accepted() {
    let names = section("keys", "Other keys").split("one of ").nth(1).unwrap().split(';').next().unwrap();
    let names = quoted(names);
    assert!(names.len() > 15, "{names:?}");
    for name in names {
        for key in [name.to_owned(), format!("alt-{name}")] {
            let changes = BTreeMap::from([("stop-job".to_owned(), vec![key.clone()])]);
            // A key that is already bound in a context is valid all the same.
            let refused = Keymap::with_changes(actions(), &changes).err().map(|error| error.to_string());
            assert!(
                refused.as_ref().is_none_or(|error| error.contains("is bound to both")),
                "{key}: {refused:?}"
            );
        }
    }
}

#[test]
fn every_command_is_in_the_manual() {
    let tables = page("commands").split("\n## Options").next().unwrap();
    let (word, mut listed) = (Regex::new("`([^`]+)`").unwrap(), BTreeSet::new());
    for row in first_cells(tables).into_iter().filter(|row| row.contains('`')) {
        // `configs list`, `show`: the other names in a row belong to the command of the first.
        let mut group = String::new();
        for (index, name) in word.captures_iter(row).enumerate() {
            let words: Vec<&str> = name[1].split(' ').collect();
            let lower = words
                .iter()
                .take_while(|w| w.chars().all(|c| c.is_ascii_lowercase() || c == '-') && **w != "--");
            let name: Vec<&str> = lower.copied().collect();
            if index == 0 && name.len() > 1 {
                name[0].clone_into(&mut group);
            }
            listed.insert(
                if index > 0 { format!("{group} {}", name.join(" ")) } else { name.join(" ") }
                    .trim()
                    .to_owned(),
            );
        }
    }
    let leaves =
        commands().into_iter().filter(|(_, c)| !c.get_subcommands().any(|inner| !inner.is_hide_set()));
    assert_eq!(listed, leaves.map(|(name, _)| name).collect());
}

#[test]
fn help_and_the_manual_list_commands_under_the_same_headings() {
    let mut groups: Vec<(&str, Vec<String>)> = Vec::new();
    for line in page("commands").split("\n## Options").next().unwrap().lines() {
        if let Some(heading) = line.strip_prefix("## ") {
            groups.push((heading, Vec::new()));
        } else if let Some(row) = line.strip_prefix("| `") {
            let (_, listed) = groups.last_mut().unwrap();
            for name in all("`([a-z-]+)", &format!("`{}", row.split(" | ").next().unwrap())) {
                // The other names of such a row are subcommands.
                if Arguments::command().find_subcommand(name).is_some() && !listed.iter().any(|l| l == name) {
                    listed.push(name.to_owned());
                }
            }
        }
    }
    assert_eq!(groups.len(), GROUPS.len());
    for ((heading, names), (of_help, in_help)) in groups.iter().zip(GROUPS) {
        assert_eq!((heading, &names.iter().map(String::as_str).collect::<Vec<_>>()[..]), (of_help, *in_help));
    }
    let listed: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| *names).copied().collect();
    let program = Arguments::command();
    let shown: BTreeSet<&str> =
        program.get_subcommands().filter(|c| !c.is_hide_set()).map(Command::get_name).collect();
    assert_eq!(listed.iter().copied().collect::<BTreeSet<_>>(), shown);
    assert_eq!(listed.len(), shown.len(), "a command is listed twice");
}

#[test]
fn options_that_are_named_exist() {
    let commands = commands();
    let shared = options(&commands["clusters"]);
    let table = section("commands", "Options of all commands");
    let listed: BTreeSet<String> =
        first_cells(table).iter().flat_map(|cell| all("(--[a-z-]+)", cell)).map(str::to_owned).collect();
    let own = BTreeSet::from(["--json", "--wide", "--help"].map(str::to_owned));
    assert_eq!(listed, &shared - &own);
    let known: BTreeSet<String> = commands.values().flat_map(options).collect();
    let many = section("commands", "Options of many commands");
    for option in first_cells(many).iter().flat_map(|cell| all("(--[a-z-]+)", cell)) {
        let having = commands.values().filter(|command| options(command).contains(option)).count();
        assert!(having > 1, "{option} is no option of many commands");
    }
    // Options of other programs: cargo, ray and py-spy.
    let others = ["--path", "--address", "--release", "--no-restart", "--nonblocking"];
    let readme = include_str!("../../README.md");
    // `tests/program/old_script.rs` tests the old command lines.
    let not_ours = ["contributing", "benchmarks", "old-script"];
    let pages = PAGES.iter().filter(|(topic, _)| !not_ours.contains(topic)).map(|(_, text)| *text);
    for option in pages.chain([readme]).flat_map(|text| all(r"(?:^|[ `(])(--[a-z][a-z-]+)", text)) {
        assert!(known.contains(option) || others.contains(&option), "no command has the option {option}");
    }
}

#[test]
fn every_help_has_an_example_that_fits_a_line() {
    let known: BTreeSet<String> = commands().values().flat_map(options).collect();
    for (name, command) in commands() {
        let end = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        assert!(end.contains("Examples:\n  "), "marin-tui {name} --help has no example");
        for example in end.lines().filter(|line| line.starts_with("  ")) {
            assert!(example.chars().count() <= 100, "{name}: {example}");
            // Everything after `--` belongs to another program.
            let ours = example.split(" -- ").next().unwrap_or_default();
            for option in all(" (--[a-z-]+)", ours) {
                assert!(known.contains(option), "{name}: {option}");
            }
        }
    }
}

#[test]
fn exit_codes_are_those_of_the_manual() {
    let manual = all("(?:^|[^0-9])([0-9]+)", section("commands", "Exit codes"));
    for (name, command) in commands() {
        let end = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        for sentence in all("Exit codes?: (.*)", &end) {
            for code in
                all("(?:^|[ ,])([0-9]+) (?:the|all|a|no|success|failure|ended|timed|for|if)", sentence)
            {
                assert!(manual.contains(code), "{name}: commands.md does not have the exit code {code}");
            }
        }
    }
    for code in all("ExitCode::from\\(([0-9]+)\\)|: u8 = ([0-9]+);", &sources("cli")) {
        assert!(manual.contains(code), "commands.md does not have the exit code {code}");
    }
}

#[test]
fn the_settings_of_a_cluster_are_all_named() {
    let source = include_str!("../../src/config/settings.rs");
    let fields = source.split("pub struct Override {").nth(1).unwrap().split("\n}").next().unwrap();
    let row = page("settings").lines().find(|line| line.starts_with("| `clusters.NAME` |")).unwrap();
    let named: BTreeSet<&str> = quoted(row.rsplit(" | ").next().unwrap());
    assert_eq!(named, all("pub ([a-z_]+):", fields));
}

#[test]
fn every_environment_variable_is_named() {
    let (manual, source) = (page("settings"), sources(""));
    // The home directory, and the host name.
    let plain = ["HOME", "HOSTNAME", "WANDB_API_KEY"];
    for variable in all(r#"env\.var\("([A-Z_]+)"\)"#, &source) {
        assert!(
            plain.contains(&variable) || manual.contains(&format!("`{variable}`")),
            "settings.md lacks {variable}"
        );
    }
}

#[test]
fn every_json_key_is_named_and_exists() {
    let manual: BTreeSet<&str> =
        all(r#""([a-z0-9_]+)""#, page("json")).into_iter().chain(quoted(page("json"))).collect();
    let code = sources("cli");
    // Tests at the end of the code quote JSON of other programs.
    let code: String = code
        .split("#[cfg(test)]\nmod tests")
        .map(|part| part.split_once("\n//! ").map_or(part, |_| part))
        .collect();
    let printed = all(r#""([a-z0-9_]+)": "#, &code);
    assert!(printed.len() > 60, "{printed:?}");
    for key in &printed {
        assert!(manual.contains(key), "json.md lacks the key {key}");
    }
    let everywhere = sources("");
    for key in all(r#""([a-z0-9_]+)"[,}:]"#, page("json")) {
        let is_there =
            everywhere.contains(&format!("\"{key}\"")) || everywhere.contains(&format!(" {key}: "));
        assert!(is_there, "json.md names a key that nothing prints: {key}");
    }
}

#[test]
fn every_column_is_named_in_the_settings_page() {
    let page = page("settings").split_once("| table | columns |").unwrap().1;
    for (table, columns) in tables() {
        let is_of_it = |line: &&str| line.split(" | ").next().unwrap().contains(&format!("`{table}`"));
        let row = page.lines().find(is_of_it).unwrap();
        for id in columns {
            assert!(row.contains(&format!("`{id}`")), "{table}: {id}");
        }
    }
}
