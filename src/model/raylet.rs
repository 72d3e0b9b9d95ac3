//! The threads of the raylets on the hosts of a job.

use super::Text;
use super::amount::counted;
use super::node::host_label;

/// CPU use in percent of a core from which a raylet thread is reported: the raylet schedules for its whole host.
const BUSY_PERCENT: f64 = 50.0;

/// The threads of a host's raylet.
#[derive(Clone, Debug, PartialEq)]
pub struct RayletThreads {
    /// The display name of the node; its address if it has no name.
    pub host: Text,
    /// The node's address.
    pub address: Text,
    /// Its process id.
    pub pid: u32,
    /// Its threads, main thread first.
    pub threads: Vec<RayletThread>,
}

/// A thread of a raylet.
#[derive(Clone, Debug, PartialEq)]
pub struct RayletThread {
    /// Its name.
    pub name: Text,
    /// Its state as the kernel names it (`proc_pid_stat(5)`): `S` sleeping, `R` running, `D` blocked, `T` stopped.
    pub state: char,
    /// CPU use between two samples, in percent of a core; none after only one sample.
    pub cpu: Option<f64>,
}

impl RayletThread {
    /// `raylet  S  0.4%`, safe for a terminal.
    pub fn text(&self) -> String {
        let cpu = self.cpu.map(|cpu| format!("  {cpu:.1}%")).unwrap_or_default();
        format!("{}  {}{cpu}", self.name, self.state)
    }

    /// The problem with the thread; none if there is no problem.
    fn problem(&self) -> Option<String> {
        let busy = self.cpu.filter(|cpu| *cpu >= BUSY_PERCENT);
        match (self.state, busy) {
            ('T' | 't', _) => Some(format!("{} is stopped", self.name)),
            ('D', _) => Some(format!("{} is blocked in the kernel", self.name)),
            (_, Some(cpu)) => Some(format!("{} uses {cpu:.0}% of a core", self.name)),
            _ => None,
        }
    }
}

impl RayletThreads {
    /// `t1v-n-7 (10.0.0.7) pid 31: raylet uses 98% of a core`, safe for a terminal; none if there is no
    /// problem.
    pub fn problem(&self) -> Option<String> {
        let mut problems: Vec<String> = self.threads.iter().filter_map(RayletThread::problem).collect();
        if problems.is_empty() {
            return None;
        }
        if self.threads.iter().all(|thread| matches!(thread.state, 'T' | 't')) {
            problems = vec!["stopped by a signal or a debugger".to_owned()];
        }
        let on = host_label(&self.host, &self.address);
        Some(format!("{on} pid {}: {}", self.pid, problems.join(", ")))
    }
}

/// The lines about raylets below the stacks of a job: one for each raylet with a problem, which begins with `! `, and
/// one for the others.
pub fn raylet_lines(raylets: &[RayletThreads]) -> Vec<String> {
    let mut lines: Vec<String> =
        raylets.iter().filter_map(RayletThreads::problem).map(|problem| format!("! {problem}")).collect();
    let healthy: Vec<_> = raylets.iter().filter(|raylet| raylet.problem().is_none()).collect();
    if !healthy.is_empty() {
        let threads: usize = healthy.iter().map(|raylet| raylet.threads.len()).sum();
        let sampled = healthy.iter().all(|raylet| raylet.threads.iter().all(|thread| thread.cpu.is_some()));
        let what = if sampled {
            format!("stopped, blocked or above {BUSY_PERCENT:.0}% of a core")
        } else {
            "stopped or blocked".to_owned()
        };
        let hosts = counted(healthy.len(), "host");
        lines.push(format!("{hosts}: none of {} is {what}", counted(threads, "thread")));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raylet(host: &str, threads: &[(char, Option<f64>)]) -> RayletThreads {
        let thread = |(state, cpu): &(char, Option<f64>)| RayletThread {
            name: "raylet".into(),
            state: *state,
            cpu: *cpu,
        };
        RayletThreads {
            host: host.into(),
            address: "10.0.0.7".into(),
            pid: 31,
            threads: threads.iter().map(thread).collect(),
        }
    }

    #[test]
    fn raylets_with_problems_are_listed_and_others_are_counted() {
        let healthy = raylet("tb-w1", &[('S', Some(1.0)), ('R', Some(3.0))]);
        let all = [
            raylet("tb-w7", &[('S', Some(1.0)), ('R', Some(97.6))]),
            healthy.clone(),
            raylet("10.0.0.7", &[('T', None), ('T', None)]),
            raylet("tb-w8", &[('D', Some(0.0))]),
            healthy.clone(),
        ];
        assert_eq!(
            raylet_lines(&all),
            [
                "! tb-w7 (10.0.0.7) pid 31: raylet uses 98% of a core",
                "! 10.0.0.7 pid 31: stopped by a signal or a debugger",
                "! tb-w8 (10.0.0.7) pid 31: raylet is blocked in the kernel",
                "2 hosts: none of 4 threads is stopped, blocked or above 50% of a core",
            ]
        );
        let once = raylet("tb-w1", &[('S', None)]);
        assert_eq!(raylet_lines(&[once]), ["1 host: none of 1 thread is stopped or blocked"]);
        assert!(raylet_lines(&[]).is_empty());
    }
}
