//! The man pages: one for each command and one for each page of the manual, all of which `man` formats without
//! warnings.

use clap::CommandFactory as _;
use marin_tui::cli::Arguments;
use marin_tui::manual::PAGES;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;
use tempfile::TempDir;

/// Requests and macros that a page may use: those of man(7) and roff(7) that every implementation has.
const MACROS: [&str; 15] =
    ["TH", "SH", "SS", "PP", "TP", "IP", "RS", "RE", "nf", "fi", "br", "ie", "el", "\\}", "ds"];

fn written() -> (TempDir, BTreeMap<String, String>) {
    let dir = tempfile::tempdir().unwrap();
    // The command creates the directory.
    let pages = dir.path().join("share/man");
    let program = Command::new(env!("CARGO_BIN_EXE_marin-tui")).arg("man").arg(&pages).output().unwrap();
    assert!(
        program.status.success() && program.stdout.is_empty() && program.stderr.is_empty(),
        "{program:?}"
    );
    let pages = fs::read_dir(pages).unwrap().map(|entry| entry.unwrap().path());
    let page = |path: &Path| {
        (path.file_name().unwrap().to_str().unwrap().to_owned(), fs::read_to_string(path).unwrap())
    };
    (dir, pages.map(|path| page(&path)).collect())
}

/// A command and its subcommands, by the names of their pages.
fn commands(command: &clap::Command, name: &str) -> Vec<String> {
    let inner = command.get_subcommands().filter(|c| !c.is_hide_set());
    let inner = inner.flat_map(|c| commands(c, &format!("{name}-{}", c.get_name())));
    std::iter::once(name.to_owned()).chain(inner).collect()
}

#[test]
fn every_command_and_topic_has_a_page() {
    let (_dir, pages) = written();
    let program = Arguments::command();
    let expected: BTreeSet<String> = commands(&program, "marin-tui")
        .into_iter()
        .map(|name| format!("{name}.1"))
        .chain(PAGES.iter().map(|(topic, _)| format!("marin-tui-{topic}.7")))
        .collect();
    assert_eq!(pages.keys().cloned().collect::<BTreeSet<_>>(), expected);
    for (file, page) in &pages {
        let (name, section) = file.rsplit_once('.').unwrap();
        let unescaped = page.replace("\\-", "-").replace("\\fB", "").replace("\\fR", "");
        assert!(unescaped.contains(&format!("\n.TH {name} {section} ")), "{file}: {page}");
        assert!(unescaped.contains(&format!("\n.SH NAME\n{name} - ")), "{file}: {page}");
        for line in page.lines().filter_map(|line| line.strip_prefix('.')) {
            let request = line.split(' ').next().unwrap();
            assert!(MACROS.contains(&request), "{file}: {line}");
        }
    }
    let main = pages["marin-tui.1"].replace("\\-", "-");
    for command in program.get_subcommands().filter(|c| !c.is_hide_set()) {
        assert!(main.contains(&format!("marin-tui-{}(1)", command.get_name())), "{}", command.get_name());
    }
    for (topic, _) in PAGES {
        assert!(main.contains(&format!("marin-tui-{topic}\\fR(7)")), "{topic}: {main}");
    }
}

#[test]
fn a_page_has_the_content_of_its_source() {
    let (dir, pages) = written();
    let keys = &pages["marin-tui-keys.7"];
    assert!(keys.contains(".SH \"TEXT FIELDS\"") && keys.contains(".TP\n\\fBspace\\fR\n"), "{keys}");
    let stop = &pages["marin-tui-stop-job.1"].replace("\\-", "-");
    assert!(
        stop.contains(".SH EXAMPLES")
            && stop.contains("stop-job eval-7")
            && stop.contains(".SH \"EXIT STATUS\""),
        "{stop}"
    );
    // Checks with `man` itself if it is installed.
    let folder = dir.path().join("share/man");
    for file in pages.keys() {
        let mut man = Command::new("man");
        man.args(["--warnings=w", "-E", "UTF-8", "-P", "cat", "-l"]).arg(folder.join(file));
        man.env("LC_ALL", "C.UTF-8").env("MANWIDTH", "80");
        let Ok(shown) = man.output() else { return };
        let (text, complaints) =
            (String::from_utf8_lossy(&shown.stdout), String::from_utf8_lossy(&shown.stderr));
        assert!(shown.status.success() && complaints.is_empty(), "{file}: {complaints}");
        assert!(text.contains("NAME") && text.contains("marin-tui"), "{file}: {text}");
    }
}
