//! The threads of a raylet, from `/proc/PID/task/TID/stat` (`proc_pid_stat(5)`): py-spy reads only Python, and a
//! debugger would stop the raylet.

use crate::model::{RayletThread, Text};

/// `USER_HZ` of Linux: clock ticks per second in `/proc`, on all machines that Ray runs on.
const TICKS: f64 = 100.0;

/// One sample of the threads of a raylet.
#[derive(Clone, Debug, PartialEq)]
pub struct Raylet {
    /// Its process id.
    pub pid: u32,
    /// Seconds since its machine started.
    at: f64,
    threads: Vec<Task>,
}

#[derive(Clone, Debug, PartialEq)]
struct Task {
    tid: u32,
    name: Text,
    state: char,
    /// CPU time in clock ticks, in user and kernel mode.
    ticks: u64,
}

impl Raylet {
    /// Reads the output of the script: `PID<tab>SECONDS`, then a `stat` line for each thread.
    pub fn read(text: &str) -> Option<Self> {
        let mut lines = text.lines();
        let (pid, at) = lines.next()?.split_once('\t')?;
        let (pid, at) = (pid.parse().ok()?, at.trim().parse().ok()?);
        let threads: Vec<Task> = lines.map_while(Task::read).collect();
        (!threads.is_empty()).then_some(Self { pid, at, threads })
    }

    /// Its threads; given an earlier sample of the same process, each has the share of a core that it has used since,
    /// in percent.
    pub fn threads(&self, before: Option<&Self>) -> Vec<RayletThread> {
        let before = before.filter(|before| before.pid == self.pid && before.at < self.at);
        let used = |task: &Task| {
            let before = before?;
            let then = before.threads.iter().find(|then| then.tid == task.tid).map_or(0, |then| then.ticks);
            Some(task.ticks.saturating_sub(then) as f64 / TICKS / (self.at - before.at) * 100.0)
        };
        // Every disk access blocks a thread for a moment, so that a thread is blocked only if both samples show it.
        let stays = |task: &Task| {
            before.is_none_or(|b| b.threads.iter().any(|t| t.tid == task.tid && t.state == task.state))
        };
        let thread = |task: &Task| RayletThread {
            name: task.name.clone(),
            state: if task.state == 'D' && !stays(task) { 'S' } else { task.state },
            cpu: used(task),
        };
        self.threads.iter().map(thread).collect()
    }
}

impl Task {
    /// `31 (raylet) S 1 31 31 0 -1 4194560 1 0 0 0 120 30 ..`; the name may contain any characters.
    fn read(line: &str) -> Option<Self> {
        let (tid, rest) = line.split_once(" (")?;
        let (name, rest) = rest.rsplit_once(") ")?;
        let mut fields = rest.split(' ');
        let state = fields.next()?.chars().next()?;
        let mut times = fields.skip(10).map(|field| field.parse::<u64>().ok());
        let ticks = times.next()?? + times.next()??;
        Some(Self { tid: tid.parse().ok()?, name: name.into(), state, ticks })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(at: &str, (state, ticks): (char, u64)) -> Raylet {
        let stat = |tid: u32, name: &str, state: char, ticks: u64| {
            format!("{tid} ({name}) {state} 1 31 31 0 -1 4194560 9 0 0 0 {ticks} 5 0 0 20 0 40 0 77 8 9\n")
        };
        let text =
            format!("31\t{at}\n{}{}end\n", stat(31, "raylet", 'S', 50), stat(40, "a) b (c", state, ticks));
        Raylet::read(&text).unwrap()
    }

    #[test]
    fn cpu_usage_between_two_samples_is_a_share_of_a_core() {
        let (first, second) = (sample("100.00", ('R', 1000)), sample("102.00", ('R', 1196)));
        let used: Vec<_> = second.threads(Some(&first)).iter().map(|t| t.cpu.map(f64::round)).collect();
        assert_eq!(used, [Some(0.0), Some(98.0)]);
        assert_eq!(second.threads(Some(&first))[1].name.raw(), "a) b (c");
        assert!(second.threads(None).iter().all(|thread| thread.cpu.is_none()));
        let other = Raylet { pid: 32, ..first };
        assert_eq!(second.threads(Some(&other))[1].cpu, None, "a different raylet");
    }

    #[test]
    fn a_thread_is_blocked_only_if_both_samples_show_it() {
        let (runs, blocked) = (sample("1.0", ('R', 1)), sample("3.0", ('D', 1)));
        assert_eq!(blocked.threads(Some(&runs))[1].state, 'S');
        assert_eq!(sample("5.0", ('D', 1)).threads(Some(&blocked))[1].state, 'D');
        assert_eq!(blocked.threads(None)[1].state, 'D');
    }

    #[test]
    fn other_text_is_not_a_raylet() {
        for text in ["", "31\t1.0\n", "x\t1\n31 (r) S", "31\t1.0\n31 raylet S 1"] {
            assert_eq!(Raylet::read(text), None, "{text:?}");
        }
    }
}
