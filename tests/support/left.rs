//! What a test may not leave behind: processes.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

/// How long a process may take to end.
const DEADLINE: Duration = Duration::from_secs(30);

/// Command lines of other processes with that folder in them.
fn processes_that_name(folder: &Path) -> Vec<String> {
    let name = folder.to_str().unwrap();
    let pids =
        fs::read_dir("/proc").unwrap().filter_map(|e| e.ok()?.file_name().to_str()?.parse::<u32>().ok());
    let lines = pids.filter_map(|pid| fs::read_to_string(format!("/proc/{pid}/cmdline")).ok());
    lines.filter(|line| line.contains(name)).map(|line| line.replace('\0', " ")).collect()
}

/// What was cut off in the middle of a connection ends as after `kill -9`: by its lifeline, in a moment.
pub fn assert_no_process_names(folder: &Path) {
    let deadline = Instant::now() + DEADLINE;
    loop {
        let left = processes_that_name(folder);
        if left.is_empty() {
            return;
        }
        assert!(Instant::now() < deadline, "{left:?}");
        thread::sleep(Duration::from_millis(10));
    }
}
