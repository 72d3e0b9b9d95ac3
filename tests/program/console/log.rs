//! Log lines that are passed to other programs and files, and a log that is downloaded for a search.

use super::*;

/// The console on the log of a running job, with a pager that records its arguments, environment and input.
fn on_a_log(fixture: &Fixture) -> (Pty, PathBuf) {
    let (viewer, seen) = (fixture.file("viewer"), fixture.file("viewer.seen"));
    let script = "#!/bin/sh\necho argv \"$@\" >\"$HOME/seen.part\"\nfor file; do :; done\n\
                  stat -c 'mode %a' \"$file\" >>\"$HOME/seen.part\"\nenv >>\"$HOME/seen.part\"\n\
                  cat \"$file\" >>\"$HOME/seen.part\"\nmv \"$HOME/seen.part\" \"$HOME/viewer.seen\"\n";
    fs::write(&viewer, script).unwrap();
    fs::set_permissions(&viewer, fs::Permissions::from_mode(0o755)).unwrap();
    let (dashboard, gcs) = (format!("http://{}", fixture.head().dashboard), fixture.head().gcs.to_string());
    let pager = format!("{} -R", viewer.display());
    let home = fixture.home.path().display().to_string();
    let more = [
        ("PAGER", pager.as_str()),
        ("VISUAL", "/no/such/editor"),
        ("RAY_AUTH_TOKEN", TOKEN),
        ("TMPDIR", home.as_str()),
    ];
    let mut pty = fixture.open(&["--address", &dashboard, "--gcs", &gcs], &more, 120, 40);
    pty.wait_text(UP);
    let running = fixture.head().submissions(JobStatus::Running).pop().unwrap();
    pty.send("3z");
    pty.wait("the log alone", |t| t.contains(&running) && !t.contains("1 Slices") && t.contains("step"));
    (pty, seen)
}

#[test]
fn a_log_is_opened_in_the_pager_and_its_file_is_deleted() {
    let fixture = Fixture::with_token();
    let (mut pty, seen) = on_a_log(&fixture);
    pty.send("V");
    pty.wait_text("exited");
    let seen = fs::read_to_string(seen).unwrap();
    let argv = seen.lines().next().unwrap();
    let file = argv.strip_prefix("argv -R ").unwrap_or_else(|| panic!("{argv}"));
    assert!(!Path::new(file).exists(), "{file}");
    assert!(seen.contains("mode 600\n") && seen.contains("step"), "{seen}");
    assert!(!seen.contains(TOKEN));
    pty.send("v");
    pty.wait_text("cannot start /no/such/editor: no such file");
    let left = fs::read_dir(fixture.home.path()).unwrap().map(|entry| entry.unwrap().file_name());
    assert!(left.into_iter().all(|name| !name.to_string_lossy().starts_with("marin-tui-")));
    pty.send("z");
    pty.wait_text("1 Slices");
    quit(&mut pty);
}

#[test]
fn a_log_is_saved_and_a_file_replaced_only_after_confirmation() {
    let fixture = Fixture::with_token();
    let (mut pty, _) = on_a_log(&fixture);
    let file = fixture.file("saved.log");
    let path = file.display().to_string();
    fs::write(&file, "mine\n").unwrap();
    // ^u clears the input.
    pty.send("s");
    pty.wait_text("save to the file: ");
    pty.send(&format!("\x15{path}\r"));
    pty.wait_text("Replace file");
    assert_eq!(fs::read_to_string(&file).unwrap(), "mine\n");
    pty.send("\t\r");
    pty.wait_text("saved ");
    assert!(fs::read_to_string(&file).unwrap().contains("step"));
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    pty.send("&step 1\r");
    pty.wait_text("&step 1");
    let filtered = fixture.file("filtered.log");
    pty.send(&format!("s\x15{}\r", filtered.display()));
    let said = pty.wait_text("that are shown to");
    let lines = fs::read_to_string(&filtered).unwrap().lines().count();
    assert!(said.contains(&format!("saved the {lines} lines of ")), "{said}");
    pty.send("z");
    pty.wait_text("1 Slices");
    quit(&mut pty);
}

#[test]
fn a_log_without_ssh_is_downloaded_and_searched() {
    let fixture = Fixture::with_token();
    let (mut pty, _) = on_a_log(&fixture);
    pty.send("/loss\r");
    pty.wait_text("/loss");
    pty.send("g/");
    let question = pty.wait_text("Download log");
    assert!(question.contains("no SSH connection") && question.contains("up to 1.0 "), "{question}");
    pty.send("\t\r");
    pty.wait_text("lines of the whole log");
    pty.send("\r");
    pty.wait("the list is closed", |t| !t.contains("go to the line: "));
    pty.send("\x1b");
    pty.wait("no search", |t| !t.contains("/loss"));
    pty.send("z");
    pty.wait_text("1 Slices");
    quit(&mut pty);
}
