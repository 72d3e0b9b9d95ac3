//! Enforces the architecture of `src/`: imports only go downward, between top-level modules (rooms) and between files;
//! terminals, keys, colors and processes are confined to their rooms.

mod circles;

use circles::{Arrows, arrows, circles};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Known dependency cycles between files. The list may only become shorter: a cycle that was broken must be removed.
const CIRCLES: &[&[&str]] = &[];

/// Each room and the rooms that it may import. A room that is missing here fails the test.
const ROOMS: &[(&str, &[&str])] = &[
    ("model", &[]),
    ("manual", &[]),
    ("regular", &[]),
    ("replace", &[]),
    ("task", &[]),
    ("proto", &[]),
    ("config", &["regular", "replace", "model"]),
    ("reconcile", &["model"]),
    ("infra", &["config", "replace", "model"]),
    ("token", &["regular", "replace", "model"]),
    ("ssh", &["task", "model"]),
    ("logs", &["model"]),
    ("job_workers", &["logs", "model"]),
    ("stacks", &["model"]),
    ("vitals", &["logs", "model"]),
    ("ray", &["logs", "stacks", "proto", "task", "model"]),
    ("libtpu", &["proto", "model"]),
    ("gcp", &["task", "model"]),
    // Not `ray`: the simulated heads share the schema with the client, but no code.
    ("demo", &["proto", "task", "model"]),
    ("diagnose", &["model"]),
    ("state", &["diagnose", "reconcile", "model"]),
    ("supervisor", &["state", "vitals", "logs", "config", "token", "ssh", "ray", "gcp", "task", "model"]),
    (
        "operation",
        &[
            "supervisor",
            "job_workers",
            "logs",
            "stacks",
            "ssh",
            "ray",
            "libtpu",
            "gcp",
            "diagnose",
            "infra",
            "config",
            "replace",
            "task",
            "model",
        ],
    ),
    ("app", &["state", "job_workers", "logs", "diagnose", "reconcile", "manual", "model"]),
    ("ui", &["app", "job_workers", "logs", "diagnose", "reconcile", "model"]),
    ("tui", &["ui", "app", "operation", "supervisor", "state", "config", "replace", "task", "model"]),
    // `cli` also starts the console, including on a simulated fleet, because it parses the arguments.
    (
        "cli",
        &[
            "tui",
            "ui",
            "app",
            "operation",
            "supervisor",
            "vitals",
            "job_workers",
            "logs",
            "stacks",
            "ray",
            "gcp",
            "demo",
            "config",
            "infra",
            "token",
            "state",
            "diagnose",
            "reconcile",
            "manual",
            "task",
            "model",
        ],
    ),
    ("main", &["cli"]),
];

fn sources() -> Vec<(String, PathBuf, String)> {
    fn walk(dir: &Path, out: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(dir).unwrap().map(Result::unwrap) {
            let path = entry.path();
            if path.is_dir() {
                walk(&path, out);
            } else if path.extension().is_some_and(|e| e == "rs") {
                out.push(path);
            }
        }
    }
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    walk(&src, &mut files);
    files.retain(|path| !path.starts_with(src.join("proto/generated")));
    files.sort();
    let room = |p: &Path| {
        let first = p.strip_prefix(&src).unwrap().components().next().unwrap();
        first.as_os_str().to_string_lossy().trim_end_matches(".rs").to_owned()
    };
    files.into_iter().map(|p| (room(&p), p.clone(), fs::read_to_string(&p).unwrap())).collect()
}

/// The code without comments and without the test module at the end of a file.
fn code(text: &str) -> String {
    let body = text.split("\n#[cfg(test)]\nmod tests").next().unwrap_or(text);
    let line = |l: &str| l.split("//").next().unwrap_or_default().to_owned();
    body.lines().map(line).collect::<Vec<_>>().join("\n")
}

/// Rooms that follow `crate::` (or the library's name, in `main`), also in `use crate::{a, b::c}`.
fn imported(text: &str) -> BTreeSet<String> {
    let mut rooms = BTreeSet::new();
    for prefix in ["crate::", "marin_tui::"] {
        for (at, _) in text.match_indices(prefix) {
            let rest = &text[at + prefix.len()..];
            if let Some(group) = rest.strip_prefix('{') {
                let mut depth = 0;
                let mut word = String::new();
                for c in group.chars() {
                    match c {
                        '{' => depth += 1,
                        '}' if depth == 0 => break,
                        '}' => depth -= 1,
                        ',' if depth == 0 => {
                            rooms.insert(std::mem::take(&mut word));
                            continue;
                        }
                        _ => {}
                    }
                    if depth == 0 {
                        word.push(c);
                    }
                }
                rooms.insert(word);
            } else {
                rooms.insert(rest.to_owned());
            }
        }
    }
    let ident =
        |s: &String| s.trim().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect::<String>();
    rooms.iter().map(ident).filter(|s| !s.is_empty()).collect()
}

#[test]
fn imports_go_downward_only() {
    let mut wrong = Vec::new();
    for (room, path, text) in sources() {
        if room == "lib" {
            continue;
        }
        let Some((_, allowed)) = ROOMS.iter().find(|(name, _)| *name == room) else {
            wrong.push(format!("{}: room `{room}` is not in the table", path.display()));
            continue;
        };
        for import in imported(&code(&text)) {
            let known = ROOMS.iter().any(|(name, _)| *name == import);
            if known && import != room && !allowed.contains(&import.as_str()) {
                wrong.push(format!("{}: `{room}` imports `{import}`", path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn files_have_no_dependency_cycles() {
    let arrows = arrows(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"));
    let of_table = &arrows["app/action/keymap.rs"]["app/action/table.rs"];
    assert!(of_table.contains("Action"), "names that a macro defines count, too: {of_table:?}");
    let found = circles(&arrows);
    let listed: BTreeSet<Vec<String>> =
        CIRCLES.iter().map(|circle| circle.iter().map(|f| (*f).to_owned()).collect()).collect();
    let tied = |circle: &Vec<String>| format!("a circle that is not in CIRCLES:\n{}", ties(&arrows, circle));
    let gone = |circle: &Vec<String>| format!("untied, or smaller now; take it out of CIRCLES: {circle:?}");
    let wrong: Vec<String> =
        found.difference(&listed).map(tied).chain(listed.difference(&found).map(gone)).collect();
    assert!(
        wrong.is_empty(),
        "{}\nPut what two files share into a third one, or pass it in.",
        wrong.join("\n")
    );
}

/// The names by which the files of a cycle refer to each other.
fn ties(arrows: &Arrows, circle: &[String]) -> String {
    let of = |from: &String| {
        let to = arrows[from].iter().filter(|(to, _)| circle.contains(to));
        to.map(|(to, names)| format!("  {from} -> {to}: {names:?}")).collect::<Vec<_>>()
    };
    circle.iter().flat_map(of).collect::<Vec<_>>().join("\n")
}

#[test]
fn crates_stay_in_their_rooms() {
    // (text in the code, rooms that may contain it)
    const OWNERS: &[(&str, &[&str])] = &[
        ("ratatui::", &["ui", "tui"]),
        ("crossterm::", &["app", "tui"]),
        (
            "tokio::",
            &["ssh", "ray", "libtpu", "gcp", "supervisor", "operation", "tui", "cli", "demo", "main", "task"],
        ),
        ("tokio::spawn", &["task"]),
        ("tokio::task::spawn_blocking", &["task"]),
        ("reqwest::", &["ray", "gcp"]),
        ("google_cloud", &["gcp"]),
        ("tonic::", &["proto", "ray", "libtpu", "demo"]),
        ("Command::new", &["ssh", "supervisor", "tui"]),
        ("arboard::", &["tui"]),
        ("println!", &["main", "cli"]),
        ("SystemTime::now", &["model"]),
        ("Timestamp::now", &["ssh", "ray", "supervisor", "operation", "tui", "cli", "demo", "main", "token"]),
    ];
    let mut wrong = Vec::new();
    for (room, path, text) in sources() {
        let code = code(&text);
        for (word, rooms) in OWNERS {
            if code.contains(word) && !rooms.contains(&room.as_str()) {
                wrong.push(format!("{}: `{word}` belongs to {}", path.display(), rooms.join(", ")));
            }
        }
        if room == "app"
            && ["crossterm::terminal", "crossterm::cursor", "crossterm::execute"]
                .iter()
                .any(|w| code.contains(w))
        {
            wrong.push(format!("{}: app may use crossterm's key and mouse types only", path.display()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_gcs_receives_only_complete_node_ids() {
    // An id of another length crashes the gcs_server: the client sends an id in one request only, from a `NodeId`.
    let client: String =
        sources().iter().filter(|(room, ..)| room == "ray").map(|(.., text)| code(text) + "\n").collect();
    assert!(!client.contains("node_ids") && !client.contains("node_selectors"));
    let fields = client.split("Request {").skip(1).flat_map(|s| s.split('}').next().unwrap().lines());
    let ids: Vec<&str> = fields.map(str::trim).filter(|l| l.contains("node_id")).collect();
    assert_eq!(ids, ["node_id: bytes::Bytes::copy_from_slice(self.node.as_bytes()),"]);
}

#[test]
fn colors_are_defined_in_themes_only() {
    let outside =
        |path: &Path| !path.ends_with("ui/theme.rs") && !path.to_string_lossy().contains("/ui/theme/");
    let color = regex::Regex::new(r"\bColor::").unwrap();
    let named = sources().into_iter().filter(|(_, path, text)| outside(path) && color.is_match(&code(text)));
    let wrong: Vec<String> = named.map(|(_, path, _)| path.display().to_string()).collect();
    assert!(wrong.is_empty(), "a colour is named outside of the themes: {}", wrong.join(", "));
}

#[test]
fn commands_write_through_sanitized_output() {
    // Data from a cluster reaches a terminal through `cli/output.rs` only, whose macros the whole room uses.
    const STREAMS: &[&str] = &[
        "io::stdout",
        "io::stderr",
        "to_writer",
        "serde_json::to_string_pretty",
        "std::print",
        "std::eprint",
    ];
    let mut wrong = Vec::new();
    for (room, path, text) in sources() {
        if !matches!(room.as_str(), "cli" | "main") || path.ends_with("cli/output.rs") {
            continue;
        }
        let code = code(&text);
        let found = STREAMS.iter().filter(|word| code.contains(**word));
        wrong.extend(found.map(|word| format!("{}: `{word}` belongs to cli/output.rs", path.display())));
        if room == "main" && code.contains("println!") {
            wrong.push(format!("{}: the standard macros do not clean", path.display()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let cli = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("src/cli.rs")).unwrap();
    let first = cli.lines().find(|l| l.starts_with("mod ") || l.starts_with("pub mod "));
    assert_eq!(first, Some("mod output;"), "its macros apply to the modules after it");
}

#[test]
fn no_wait_depends_on_the_wall_clock() {
    // The wall clock can be set back during a wait, so deadlines must be `Instant`s.
    for (_, path, text) in sources() {
        let waits = code(&text).lines().any(|l| l.contains("until(Timestamp::now())"));
        assert!(!waits, "{} measures a wait by the wall clock", path.display());
    }
}

#[test]
fn parsers_of_hostile_input_are_fuzzed() {
    // Parsers of data from a cluster, from its files or from after a crash.
    const ENTRIES: &[(&str, &str)] = &[
        ("config/fuzz.rs", "cluster_yaml"),
        ("config/fuzz.rs", "marin_yaml"),
        ("logs/fuzz.rs", "log_lines"),
        ("operation/journal.rs", "journal_lines"),
        ("ray/fuzz.rs", "autoscaler_report"),
        ("ray/fuzz.rs", "dashboard_jobs"),
        ("ray/fuzz.rs", "dashboard_lists"),
        ("ray/fuzz.rs", "dashboard_nodes"),
        ("ray/fuzz.rs", "gcs_cluster_status"),
        ("ray/fuzz.rs", "gcs_tables"),
        ("ray/fuzz.rs", "log_bytes"),
        ("ray/fuzz.rs", "status_text"),
        ("ray/large.rs", "package_reply"),
        ("ray/logs/socket.rs", "websocket_frames"),
        ("ray/logs/socket.rs", "websocket_handshake"),
    ];
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for (file, entry) in ENTRIES {
        let text = fs::read_to_string(root.join("src").join(file)).unwrap();
        assert!(
            text.contains(&format!("#[test]\n    fn fuzz_{entry}()"))
                || text.contains(&format!("#[test]\nfn fuzz_{entry}()")),
            "{file}: {entry}"
        );
    }
    let ci = fs::read_to_string(root.join(".ci/run")).unwrap();
    assert!(ci.contains("step .ci/deny"), "the dependencies are not checked");
}

/// An error with a cause is printed with it: one that also includes the cause in its own text would repeat it.
#[test]
fn no_error_repeats_its_cause() {
    let twice = regex::Regex::new(r#"#\[error\("[^"]*\{0[:}][^"]*"\)\]\s*\w+\(#\[(from|source)\]"#).unwrap();
    assert!(twice.is_match("#[error(\"no: {0}\")]\n    File(#[from] FileError)"), "the pattern matches");
    for (_, file, text) in sources() {
        assert!(
            !twice.is_match(&text),
            "{}: use #[error(transparent)], or leave the cause out",
            file.display()
        );
    }
}

#[test]
fn every_file_starts_with_a_module_comment() {
    for (_, path, text) in sources() {
        assert!(text.starts_with("//!"), "{} has no //! header", path.display());
    }
}

#[test]
fn the_scanner_resolves_names_to_the_file_that_defines_them() {
    const FILES: &[(&str, &str)] = &[
        ("lib.rs", "pub mod a; pub mod b;"),
        ("a.rs", "mod inner; pub use inner::Thing as Renamed; pub fn make() -> Renamed { crate::b::LOW }"),
        (
            "a/inner.rs",
            "//! Not [`super::make`].\npub struct Thing; fn x() -> impl Sized + use<'_> { super::super::b::up!(1) }",
        ),
        (
            "b.rs",
            "use crate::a::{self, Renamed}; pub const LOW: u8 = 1;\n#[cfg(test)]\nmod tests { fn x() { crate::a::make() } }",
        ),
    ];
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("a")).unwrap();
    for (file, text) in FILES {
        fs::write(dir.path().join(file), text).unwrap();
    }
    let arrows = arrows(dir.path());
    let all = arrows.iter().flat_map(|(from, to)| {
        to.iter().map(move |(to, names)| format!("{from} {to} {}", names.iter().cloned().collect::<String>()))
    });
    assert_eq!(all.collect::<Vec<_>>(), ["a.rs a/inner.rs Thing", "a.rs b.rs LOW", "b.rs a/inner.rs Thing"]);
    assert!(circles(&arrows).is_empty());
    let back = "pub struct Thing; fn x() { super::make(); }";
    fs::write(dir.path().join("a/inner.rs"), back).unwrap();
    let found = circles(&circles::arrows(dir.path()));
    assert_eq!(found.into_iter().collect::<Vec<_>>(), [["a.rs", "a/inner.rs", "b.rs"]]);
}

#[test]
fn the_scanner_finds_imports() {
    let found = imported("use crate::{app::{App, View}, model::Job};\nlet x = crate::ray::Client::new();");
    assert_eq!(found.into_iter().collect::<Vec<_>>(), ["app", "model", "ray"]);
}
