//! Checks that a test leaves no processes behind.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

/// Time limit for processes to end.
const DEADLINE: Duration = Duration::from_secs(30);

/// Command lines of processes that contain this path.
fn processes_that_name(folder: &Path) -> Vec<String> {
    let name = folder.to_str().unwrap();
    let pids =
        fs::read_dir("/proc").unwrap().filter_map(|e| e.ok()?.file_name().to_str()?.parse::<u32>().ok());
    let lines = pids.filter_map(|pid| fs::read_to_string(format!("/proc/{pid}/cmdline")).ok());
    lines.filter(|line| line.contains(name)).map(|line| line.replace('\0', " ")).collect()
}

/// Waits until no process mentions this directory. Interrupted connections end shortly, through their lifeline, as
/// after `kill -9`.
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
