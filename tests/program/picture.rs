//! The animation of README.md shows what the program draws: a tour of the simulated fleet, with the keys that an
//! operator presses. `tests/picture` records it again.

use crate::pty::Pty;
use crate::svg::{self, Frame};
use regex::Regex;
use std::env;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

const STORED: &str = "assets/picture.svg";
/// Columns and rows of the terminal.
const SIZE: (u16, u16) = (126, 34);
/// Maximum size of the picture in bytes.
const BYTES: usize = 400_000;
/// Time limit for a screen to appear: the first one waits for fourteen simulated clusters.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Part of the tip that is shown on the first start.
const TIP: &str = "lists the keys";
/// Contents of the fleet view once every cluster has responded; the cluster whose runs have issues is last.
const FLEET: [&str; 7] = [
    "12 of 14 up",
    "token refused",
    "unreachable",
    "hold quota",
    // With vitals, these clusters have jobs that wait.
    "marin-us-central2 .*◐",
    "us-east1-d .*◐",
    "big-run .*run diverging, 1 run",
];
/// How long a screen must stay unchanged before it is recorded.
const SETTLED: Duration = Duration::from_millis(600);

/// One step of the tour.
struct Step {
    /// The keys to press, as written in the manual.
    keys: &'static str,
    caption: &'static str,
    /// Regular expressions that must match the screen before it is recorded.
    shows: &'static [&'static str],
    seconds: f32,
}

const WALK: [Step; 7] = [
    Step {
        keys: "",
        caption: "Fourteen clusters, those with issues first: the autoscaler of the first one is not reporting.",
        shows: &FLEET,
        seconds: 5.0,
    },
    Step {
        keys: "enter",
        caption: "One cluster: its nodes, jobs and autoscaler, and the log of the selected job.",
        shows: &["4 Autoscaler", "FOLLOW", "Running entrypoint", "raysubmit_.* step [0-9]"],
        seconds: 4.0,
    },
    Step {
        keys: "4 l",
        caption: "The hint says: read monitor.log.",
        shows: &["Log monitor.log", "FOLLOW", "Traceback"],
        seconds: 3.0,
    },
    Step {
        keys: "3 z",
        caption: "The log in the whole window: the autoscaler requests a TPU that no longer exists, and fails in each loop.",
        shows: &["HttpError 404 when requesting"],
        seconds: 4.5,
    },
    Step {
        keys: "z R",
        caption: "Restart? First: whose jobs it stops, and which of them are restored.",
        shows: &["will be restored", "Cancel"],
        seconds: 6.0,
    },
    Step {
        keys: "esc",
        caption: "Nothing has happened yet.",
        shows: &["4 Autoscaler", "Log monitor.log"],
        seconds: 2.0,
    },
    Step { keys: "c", caption: "Back to the fleet.", shows: &FLEET, seconds: 2.0 },
];

/// Records the tour of a fleet that is the same for the same seed, and whose clock is fixed at the present.
fn recorded() -> String {
    let home = tempfile::Builder::new().prefix("mt").tempdir_in("/tmp").unwrap();
    let folder = home.path().display().to_string();
    let env = [("COLORTERM", "truecolor"), ("HOME", &folder), ("TMPDIR", &folder), ("USER", "hana")];
    let now = jiff::Timestamp::now().round(jiff::Unit::Second).unwrap().to_string();
    let program = [env!("CARGO_BIN_EXE_marin-tui"), "demo", "--seed", "7", "--fixed-time", &now];
    let mut pty = Pty::start(&program, &env, SIZE.0, SIZE.1);
    let mut frames = Vec::new();
    for step in &WALK {
        pty.send(&step.keys.split_whitespace().map(typed).collect::<String>());
        let rows = settled(&pty, step);
        frames.push(Frame { keys: step.keys, caption: step.caption, seconds: step.seconds, rows });
    }
    pty.send("q");
    assert!(pty.wait_exit().success());
    svg::animation(&frames, SIZE.0)
}

/// The input that a terminal sends for a key.
fn typed(key: &str) -> &str {
    match key {
        "enter" => "\r",
        "esc" => "\x1b",
        other => other,
    }
}

/// The rows of the screen once it shows what it should and no longer changes.
fn settled(pty: &Pty, step: &Step) -> Vec<String> {
    let begun = Instant::now();
    // The tip of the first start disappears after some seconds; on which screen depends on the machine's speed.
    let shown: Vec<_> = step.shows.iter().map(|shown| Regex::new(shown).unwrap()).collect();
    let shows = |text: &str| shown.iter().all(|shown| shown.is_match(text)) && !text.contains(TIP);
    loop {
        pty.wait_for(step.caption, TIMEOUT, shows);
        let before = normal(&pty.text());
        std::thread::sleep(SETTLED);
        let (rows, after) = pty.screen(|screen| (svg::rows(screen), screen.contents()));
        if normal(&after) == before && shows(&after) {
            return rows;
        }
        assert!(begun.elapsed() < TIMEOUT, "{}: the screen does not settle:\n{after}", step.caption);
    }
}

/// Text without the parts that depend on the time of day and the machine's speed: numbers, ages, meters, where a text
/// is cut off, and the spaces around them.
fn normal(text: &str) -> String {
    let replace = |text: String, pattern: &str, with: &str| {
        Regex::new(pattern).unwrap().replace_all(&text, with).into_owned()
    };
    let text = replace(text.to_owned(), r"(retry in|retrying|down) [^│\n]*…", "$1 …");
    let text = replace(text, r"[^│ \n…]*…", "…");
    let text = replace(text, r"[0-9][0-9,.:]*", "0");
    let text = replace(text, r"(&lt;|<)?0 ?(d|h|m|s|ms)( 0(m|s))?(?-u:\b)", "AGE");
    let text = replace(text, r"[▁▂▃▄▅▆▇█░]+", "▇");
    replace(text, r"[ \t]+", "")
}

#[test]
fn the_animation_shows_what_the_program_draws() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(STORED);
    let now = recorded();
    if env::var_os("RECORD_PICTURE").is_some() {
        fs::write(&file, &now).unwrap();
    }
    let stored = fs::read_to_string(&file).unwrap();
    assert!(stored.len() <= BYTES, "{STORED} has {} bytes; {BYTES} at most", stored.len());
    let (stored, now) = (svg::screens(&stored), svg::screens(&now));
    assert_eq!(stored.len(), now.len(), "tests/picture records the picture again");
    for (number, (stored, now)) in stored.iter().zip(&now).enumerate() {
        let (was, is) = (normal(&stored.join("\n")), normal(&now.join("\n")));
        let changed = similar::TextDiff::from_lines(&was, &is);
        assert!(
            was == is,
            "screen {number} of {STORED} is out of date; tests/picture records it again:\n{}",
            changed.unified_diff().context_radius(1)
        );
    }
}

#[test]
fn parts_that_vary_with_time_are_not_compared() {
    let same = [
        ("● up 15 ms  ▇▇░ 192/320 <30 s", "● up 9 ms ▇░░ 1,192/320 <1m"),
        ("down <1m, retry in 7 s: th… │", "down 2m, retry in 12 s: … │"),
        ("2026-11-22 17:55:59,000 ERROR", "2027-01-02 07:05:09,123 ERROR"),
        ("running 59m", "running   1h 00m"),
    ];
    for (one, other) in same {
        assert_eq!(normal(one), normal(other));
    }
    for (one, other) in [("R restart", "R start"), ("STATE", "STATUS"), ("token ok", "token refused")] {
        assert_ne!(normal(one), normal(other));
    }
}
